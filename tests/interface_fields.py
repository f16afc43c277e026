"""The interface's complete field lists, copied from its tables, as data."""

IDENTITY = frozenset({"merchant_id", "account_id", "encryption_data"})
"""Section 2.1, in requests: added when a request is sent."""

ENVELOPE = IDENTITY | {"return_status", "return_message"}
"""Section 2.1, in the reply of a look-up."""


def names(text: str) -> frozenset[str]:
    """Return the words of a text."""
    return frozenset(text.split())


# Section 2.2.
PAYMENT = names("""
    order_no currency amount
    item_total shipping handling tax_total insurance shipping_discount discount
    website items note custom
    shopper_id shopper_email shopper_ip shopper_phone shopper_level
    first_name last_name document birth_date
    billing_country billing_state billing_city billing_address billing_postal_code
    os browser browser_lang time_zone resolution cookie_new cookie_old color_depth
    delivery_firstname delivery_lastname delivery_country delivery_state delivery_city
    delivery_address delivery_postal_code
    device_fingerprint platform_source device_type notify_url
""")
CARD_PAYMENT = PAYMENT | names("""
    open3d token_flag token_id challenge_window_size session_id installments installments_id
    order_type checkout_time user_agent price_id quote_id quote_price storefront_domains
    antifraud_token_cookie
    cart_items account_owner total_discount additional_information subscription
""")

REQUEST_FIELDS = {
    "DirectPayment": CARD_PAYMENT
    | names("card expiration_month expiration_year security_code accept"),
    "RedirectPayment": CARD_PAYMENT,
    "ApmPayment": PAYMENT
    | names("""
        payment_method delivery_district_name delivery_street_name return_url bank_code person
    """),
    "CartItem": names("basic_item_data"),
    "BasicItemData": names("name quantity type category productId price"),
    "Price": names("amount_usd amount_local_currency currency"),
    "AccountOwner": names("""
        first_name last_name email account_id created past_orders_count past_orders_sum
        lastLogin_ip registration_ip
    """),
    "Discount": names("coupon_code_used discount_type"),
    "AdditionalInformation": names("mpi_info"),
    "MpiInfo": names("eci cavv xid dsTransID"),
    "Subscription": names("""
        contract contract_name contract_amount interval interval_count billing_cycle
        promotion_cycle contract_start contract_end price_id
    """),
    "Person": names("""
        document_number document_type social_name email phone_country_code phone_area_code
        phone_number birth_date net_monthly_average_income address_street address_number
        address_complement address_postal_code address_city address_state address_country
        fiscal_country documents
    """),
    "PersonDocuments": names("file_type file_data file_url labels"),
    "Labels": names("person_bank_account_id bank_account"),
    "BankAccount": names("""
        account_type account_number branch_number owner_document_number owner_name
        branch_country currency bank
    """),
    "Bank": names("code name"),
    # Section 2.7, and section 4, row 8.
    "CaptureOrder": names("transaction_id order_no currency amount"),
    "CancelOrder": names("transaction_id order_no currency amount"),
    "ReviewOrder": names("transaction_id order_no currency amount review_flag"),
    "RefundOrder": names("transaction_id order_no currency amount refund_amount refund_reason"),
}

# Section 2.8.
PAYOUT = names("""
    beneficiary beneficiary_id client_data fee_paid_by payer payment_amount source_amount
    payment_currency source_currency payment_date payment_method reason reference request_id
    swift_charge_option fund_source notify_url
""")
_PARTY = names(
    "first_name last_name company_name date_of_birth entity_type additional_info address"
)
_BANK_DETAILS = names("""
    account_currency account_name owner_document_number account_number bank_account_category
    bank_branch bank_country_code bank_name bank_street_address
    binding_mobile_number iban swift_code transaction_reference
""")

_PARTIES = {
    "Beneficiary": _PARTY | {"person_documents", "bank_details"},
    "BeneficiaryInfo": names("""
        business_area business_phone_number business_registration_number personal_email
        personal_id_number personal_id_type personal_mobile_number
        personal_net_monthly_average_income personal_phone_country_code
        personal_phone_area_code personal_fiscal_country
    """),
    "BeneficiaryAddress": names(
        "city country_code postcode state street number street_address complement"
    ),
    "PersonDocument": names("file_type file_url labels"),
    "Payer": _PARTY,
    "PayerInfo": names("""
        business_registration_number business_registration_type external_id personal_email
        personal_id_number job
    """),
    "PayerAddress": names("city country_code postcode state street_address"),
}

PAYOUT_FIELDS = {"PayoutRequest": PAYOUT, **_PARTIES, "BankDetails": _BANK_DETAILS | {"bank_code"}}

RESULT_FIELDS = {
    # Section 2.3.
    "DirectPaymentResult": names("""
        merchant_id account_id order_no amount currency transaction_id card order_status
        result_info contract_name recurring_id recurring_deduction_period
        recurring_deduction_time note token_id connector threeds_result risk_action risk_score
        risk_reasons encryption_data
    """),
    "RiskReasons": names("name status"),
    # Section 2.4.
    "ApmPaymentResult": names("merchant_id account_id order_no amount currency issuer_url"),
    # Section 2.5.
    "TransactionRecord": names("""
        transaction_id reference_no order_no amount currency payment_status query_result is3ds
        transaction_date website shopper_email shopper_phone delivery_information
        antifraud_provider fraud_check_result subscription_result
    """),
    "DeliveryInformation": names("""
        delivery_address delivery_city delivery_country delivery_firstname delivery_lastname
        delivery_postal_code delivery_state
    """),
    "FraudCheckResult": names("check_items status"),
    "SubscriptionResult": names("""
        contract_name recurring_id recurring_status recurring_deduction_period
        recurring_deduction_time
    """),
    # Section 2.6.
    "RefundRecord": names("""
        transaction_id order_no amount currency refund_amount refund_reason refund_status
        refund_reference refund_reference_id refund_message payment_status refund_date
        refund_processing_date
    """),
    # Section 2.7.
    "CaptureRecord": names("transaction_id order_no currency amount capture_status error_message"),
    "CancelRecord": names("transaction_id order_no currency amount cancel_status error_message"),
    "ReviewRecord": names(
        "transaction_id order_no currency amount review_flag review_status error_message"
    ),
    # Section 2.8.
    "PayoutResult": PAYOUT
    | IDENTITY
    | names("""
        amount_beneficiary_receives amount_payer_pays created_at last_updated_at failure_reason
        failure_type fee_amount fee_currency payer_id transaction_id short_reference_id status
    """),
    **{f"{name}Record": fields for name, fields in _PARTIES.items()},
    "BankDetailsRecord": _BANK_DETAILS | {"local_clearing_system"},
}

# Section 4.1: the hidden inputs of the page that a checkout answers with.
PAGE_INPUTS = names("""
    gbc_id connector_code account_name webSite pm_id apm_type descriptor orderprefix rrtimezone
    ordernumlength sendbgoods replacename send_bank_website replace_up_id replace_match_address
    to_pass_page source_request_ip default_lang defaultLang verifyBillingAddress
    verify_billing_address merSendLogoNo logo_name gatewayNo
    order_no amount currency notify_url shopper_email items encryption_data open3d token_flag
    token_id price_id quote_id quote_price color_depth platform_source device_type custom note
    discount shipping handling insurance item_total tax_total shipping_discount shopper_id
    shopper_level first_name last_name shopper_phone merchant_id account_id
    billing_country billing_state billing_city billing_address billing_postal_code
    delivery_firstname delivery_lastname delivery_country delivery_state delivery_city
    delivery_address delivery_postal_code
    orderNo orderAmount orderCurrency merNo signInfo firstName lastName email phone country
    state city zip address shipFirstName shipLastName shipCountry shipState shipCity shipZip
    shipAddress shipFee itemTotal taxTotal shippingDiscount goodsInfo remark notifyUrl returnUrl
    return_url cancelUrl cancel_url source_notify_url paymentToken cardType card_type token
    shopperId shopperLevel isOpen3D APMType payment_method
    allParams
""")
