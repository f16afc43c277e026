"""The request bodies of the examples, as they must go out: to the byte, put together from names.

Each text of the examples is its own name in angle brackets, and each amount is 1.50.
"""

from urllib.parse import urlencode

import attrs

from gateway_async.models.payments import ApmPayment, DirectPayment, RedirectPayment


def _texts(names: str) -> str:
    """Return these fields as JSON writes them, without the braces."""
    return ",".join(f'"{name}":"<{name}>"' for name in names.split())


_AMOUNTS = "amount item_total shipping handling tax_total insurance shipping_discount discount"
_OF_ALL = {**dict.fromkeys(_AMOUNTS.split(), "1.50"), "items": "SKU-1#,#Tea#,#2#,#9.90"}
_OF_CARDS = {
    **_OF_ALL,
    "items": "SKU-1#,#Tea#,#2#,#9.90#;#SKU-2#,##,#1#,#1",
    "card": "4111111111111111",
    "security_code": "9753",
    "token_id": "tok-5ecret",
    "checkout_time": "120",
    "antifraud_token_cookie": "c00kie-5ecret",
    "cart_items": f'[{{"basic_item_data":{{{_texts("name quantity type category productId")},'
    f'"price":{{"amount_usd":10.80,"amount_local_currency":9.90,{_texts("currency")}}}}}}}]',
    "account_owner": f'[{{{_texts("first_name last_name email account_id")},"created":1684230000,'
    '"past_orders_count":3,"past_orders_sum":1.5,'
    f"{_texts('lastLogin_ip registration_ip')}}}]",
    "total_discount": f"[{{{_texts('coupon_code_used discount_type')}}}]",
    "additional_information": f'[{{"mpi_info":{{{_texts("eci")},"cavv":"cavv-5ecret",'
    f"{_texts('xid dsTransID')}}}}}]",
    "subscription": f'{{{_texts("contract contract_name")},"contract_amount":"1.50",'
    f'{_texts("interval interval_count")},"billing_cycle":12,"promotion_cycle":1,'
    f"{_texts('contract_start contract_end price_id')}}}",
}
_PERSON = """
    document_number document_type social_name email phone_country_code phone_area_code phone_number
    birth_date net_monthly_average_income address_street address_number address_complement
    address_postal_code address_city address_state address_country fiscal_country
"""
_ACCOUNT = """
    account_type account_number branch_number owner_document_number owner_name branch_country
    currency
"""
_OF_APM = {
    **_OF_ALL,
    "person": f'{{{_texts(_PERSON)},"documents":{{{_texts("file_type file_data file_url")},'
    f'"labels":{{{_texts("person_bank_account_id")},"bank_account":{{{_texts(_ACCOUNT)},'
    f'"bank":{{{_texts("code name")}}}}}}}}}}}',
}


def _form(model: type, said: dict[str, str]) -> str:
    names = [field.name for field in attrs.fields(model)]
    return urlencode({name: said.get(name, f"<{name}>") for name in names})


PAYMENTS = {
    "direct_payment": _form(DirectPayment, _OF_CARDS),
    "redirect_payment": _form(RedirectPayment, _OF_CARDS),
    "apm_payment": _form(ApmPayment, _OF_APM),
}

_NAMES = "first_name last_name company_name"
_BENEFICIARY = """
    business_area business_phone_number business_registration_number personal_email
    personal_id_number personal_id_type personal_mobile_number personal_net_monthly_average_income
    personal_phone_country_code personal_phone_area_code personal_fiscal_country
"""
_BANK = """
    account_currency account_name owner_document_number account_number bank_account_category
    bank_branch bank_country_code bank_name bank_street_address binding_mobile_number iban
    swift_code transaction_reference bank_code
"""
_PAYER = """
    business_registration_number business_registration_type external_id personal_email
    personal_id_number job
"""
PAYOUT = (
    '{"request_id":"5f0c2f3e-8d43-4f5e-9a57-0c6f1f3f8d11","payment_amount":"1.50",'
    f'{_texts("payment_currency")},"beneficiary":{{{_texts(_NAMES)},"date_of_birth":"1990-02-28",'
    f'{_texts("entity_type")},"additional_info":{{{_texts(_BENEFICIARY)}}},"address":{{'
    f"{_texts('city country_code postcode state street number street_address complement')}}},"
    f'"person_documents":[{{{_texts("file_type file_url")},"labels":["passport","front"]}}],'
    f'"bank_details":{{{_texts(_BANK)}}}}},{_texts("beneficiary_id client_data fee_paid_by")},'
    f'"payer":{{{_texts(_NAMES)},"date_of_birth":"1980-12-01",{_texts("entity_type")},'
    f'"additional_info":{{{_texts(_PAYER)}}},'
    f'"address":{{{_texts("city country_code postcode state street_address")}}}}},'
    f'"source_amount":"1.50",{_texts("source_currency")},"payment_date":"2024-01-31",'
    f"{_texts('payment_method reason reference swift_charge_option fund_source notify_url')}}}"
)
