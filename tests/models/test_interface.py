"""The models against the interface's field lists: nothing missing, nothing invented."""

import inspect
from typing import Any

import attrs
import pytest

import gateway_async
from tests import interface_fields

LISTED = {
    **interface_fields.REQUEST_FIELDS,
    **interface_fields.PAYOUT_FIELDS,
    **interface_fields.RESULT_FIELDS,
    "Page": interface_fields.ENVELOPE | {"records"},
}
MODELS: dict[str, Any] = {name: getattr(gateway_async, name) for name in LISTED}


def test_every_field_of_the_interface_has_its_place() -> None:
    added = {"extra", "unreadable"}
    found = {name: {field.name for field in attrs.fields(MODELS[name])} for name in LISTED}
    assert found == {
        name: fields | added if hasattr(MODELS[name], "extra") else fields
        for name, fields in LISTED.items()
    }


def test_models_are_frozen_and_keyword_only() -> None:
    for model in MODELS.values():
        assert all(field.kw_only for field in attrs.fields(model))
        with pytest.raises(attrs.exceptions.FrozenInstanceError):
            setattr(object.__new__(model), attrs.fields(model)[0].name, "changed")


def test_every_field_is_described() -> None:
    for name, model in MODELS.items():
        shared = {
            field.name
            for base in model.__mro__[1:-1]
            if attrs.has(base) and not base.__name__.startswith("_")  # nobody looks these up
            for field in attrs.fields(base)
        }
        own = {field.name for field in attrs.fields(model)} - shared
        said = inspect.cleandoc(model.__doc__ or "")  # newer interpreters take the indent away
        counts = {field: said.count(f"\n    {field}: ") for field in own}
        assert counts == dict.fromkeys(own, 1), name
