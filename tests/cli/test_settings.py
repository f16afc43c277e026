import pytest

from gateway_async.cli.settings import VARIABLES, read_settings
from gateway_async.errors import ConfigurationError

ENVIRONMENT = {
    "GATEWAY_BASE_URL": "https://gateway.example",
    "GATEWAY_MERCHANT_ID": "M1",
    "GATEWAY_ACCOUNT_ID": "A1",
    "GATEWAY_SECRET": "hidden-words",
}


def test_settings_come_from_the_environment_and_hide_the_secret() -> None:
    settings = read_settings(ENVIRONMENT)
    assert settings.base_url == "https://gateway.example"
    assert (settings.credentials.merchant_id, settings.credentials.account_id) == ("M1", "A1")
    assert "hidden-words" not in repr(settings)


@pytest.mark.parametrize("name", VARIABLES)
def test_a_missing_variable_is_named_with_what_it_should_hold(name: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read_settings({**ENVIRONMENT, name: " "})
    assert f"{name}: {VARIABLES[name]}" in str(caught.value)
    assert "hidden-words" not in str(caught.value)
    assert str(caught.value).count("GATEWAY_") == 1


def test_all_missing_variables_are_named_at_once() -> None:
    with pytest.raises(ConfigurationError) as caught:
        read_settings({})
    assert all(name in str(caught.value) for name in VARIABLES)
