"""The models against the interface's field lists: nothing missing, nothing invented."""

import inspect
from types import ModuleType

import attrs
import pytest

from gateway_async.models import orders, payments, payouts, records
from gateway_async.models.records import Record
from tests import interface_fields

MODULES = (orders, payments, payouts, records)
LISTED = {
    **interface_fields.REQUEST_FIELDS,
    **interface_fields.PAYOUT_FIELDS,
    **interface_fields.RESULT_FIELDS,
    "Page": interface_fields.ENVELOPE | {"records"},
}
NOT_OF_THE_INTERFACE = {
    "Record",  # what all records share
    "OrderRef",  # how a look-up is asked
    "Item",  # an entry of the text `items`
    "CheckoutPage",  # HTML, not fields
    "PartyBase",
    "BankDetailsBase",
}


def public_models(module: ModuleType) -> dict[str, type]:
    return {
        name: value
        for name, value in vars(module).items()
        if isinstance(value, type)
        and attrs.has(value)
        and value.__module__ == module.__name__
        and not name.startswith("_")
    }


MODELS = {name: model for module in MODULES for name, model in public_models(module).items()}


def test_every_structure_of_the_interface_has_a_model() -> None:
    assert set(LISTED) == set(MODELS) - NOT_OF_THE_INTERFACE


@pytest.mark.parametrize("name", sorted(LISTED))
def test_every_field_of_the_interface_has_its_place(name: str) -> None:
    model = MODELS[name]
    added = {"extra", "unreadable"} if issubclass(model, Record) else set()
    assert {field.name for field in attrs.fields(model)} == LISTED[name] | added


@pytest.mark.parametrize("name", sorted(MODELS))
def test_models_are_frozen_and_keyword_only(name: str) -> None:
    model = MODELS[name]
    assert all(field.kw_only for field in attrs.fields(model))
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        setattr(object.__new__(model), attrs.fields(model)[0].name, "changed")


@pytest.mark.parametrize("name", sorted(MODELS))
def test_every_field_is_described(name: str) -> None:
    model = MODELS[name]
    shared = {
        field.name
        for base in model.__mro__[1:-1]
        if attrs.has(base) and not base.__name__.startswith("_")  # what is private, nobody looks up
        for field in attrs.fields(base)
    }
    own = {field.name for field in attrs.fields(model)} - shared
    docstring = inspect.cleandoc(model.__doc__ or "")  # newer interpreters take the indent away
    assert {field: docstring.count(f"\n    {field}: ") for field in own} == dict.fromkeys(own, 1)
