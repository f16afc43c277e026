"""The interface's complete field lists, copied from its tables: a model, and its fields."""

import re

_TABLES = """
# 2.1, of replies: what is listed, and what stands around it
_Identity: merchant_id account_id encryption_data
Page: +_Identity return_status return_message records
# 2.2
_Payment: order_no currency amount item_total shipping handling tax_total insurance
    shipping_discount discount website items note custom shopper_id shopper_email shopper_ip
    shopper_phone shopper_level first_name last_name document birth_date billing_country
    billing_state billing_city billing_address billing_postal_code os browser browser_lang time_zone
    resolution cookie_new cookie_old color_depth delivery_firstname delivery_lastname
    delivery_country delivery_state delivery_city delivery_address delivery_postal_code
    device_fingerprint platform_source device_type notify_url
_CardPayment: +_Payment open3d token_flag token_id challenge_window_size session_id installments
    installments_id order_type checkout_time user_agent price_id quote_id quote_price
    storefront_domains antifraud_token_cookie cart_items account_owner total_discount
    additional_information subscription
DirectPayment: +_CardPayment card expiration_month expiration_year security_code accept
RedirectPayment: +_CardPayment
ApmPayment: +_Payment payment_method delivery_district_name delivery_street_name return_url
    bank_code person
CartItem: basic_item_data
BasicItemData: name quantity type category productId price
Price: amount_usd amount_local_currency currency
AccountOwner: first_name last_name email account_id created past_orders_count past_orders_sum
    lastLogin_ip registration_ip
Discount: coupon_code_used discount_type
AdditionalInformation: mpi_info
MpiInfo: eci cavv xid dsTransID
Subscription: contract contract_name contract_amount interval interval_count billing_cycle
    promotion_cycle contract_start contract_end price_id
Person: document_number document_type social_name email phone_country_code phone_area_code
    phone_number birth_date net_monthly_average_income address_street address_number
    address_complement address_postal_code address_city address_state address_country fiscal_country
    documents
PersonDocuments: file_type file_data file_url labels
Labels: person_bank_account_id bank_account
BankAccount: account_type account_number branch_number owner_document_number owner_name
    branch_country currency bank
Bank: code name
# 2.7, and 4, row 8
CaptureOrder: transaction_id order_no currency amount
CancelOrder: transaction_id order_no currency amount
ReviewOrder: transaction_id order_no currency amount review_flag
RefundOrder: transaction_id order_no currency amount refund_amount refund_reason
# 2.8
_Payout: beneficiary beneficiary_id client_data fee_paid_by payer payment_amount source_amount
    payment_currency source_currency payment_date payment_method reason reference request_id
    swift_charge_option fund_source notify_url
_Party: first_name last_name company_name date_of_birth entity_type additional_info address
_BankDetails: account_currency account_name owner_document_number account_number
    bank_account_category bank_branch bank_country_code bank_name bank_street_address
    binding_mobile_number iban swift_code transaction_reference
PayoutRequest: +_Payout
Beneficiary: +_Party person_documents bank_details
BeneficiaryInfo: business_area business_phone_number business_registration_number personal_email
    personal_id_number personal_id_type personal_mobile_number personal_net_monthly_average_income
    personal_phone_country_code personal_phone_area_code personal_fiscal_country
BeneficiaryAddress: city country_code postcode state street number street_address complement
PersonDocument: file_type file_url labels
Payer: +_Party
PayerInfo: business_registration_number business_registration_type external_id personal_email
    personal_id_number job
PayerAddress: city country_code postcode state street_address
BankDetails: +_BankDetails bank_code
# 2.3 to 2.6, 2.7
DirectPaymentResult: +_Identity order_no amount currency transaction_id card order_status
    result_info contract_name recurring_id recurring_deduction_period recurring_deduction_time note
    token_id connector threeds_result risk_action risk_score risk_reasons
RiskReasons: name status
ApmPaymentResult: merchant_id account_id order_no amount currency issuer_url
TransactionRecord: transaction_id reference_no order_no amount currency payment_status query_result
    is3ds transaction_date website shopper_email shopper_phone delivery_information
    antifraud_provider fraud_check_result subscription_result
DeliveryInformation: delivery_address delivery_city delivery_country delivery_firstname
    delivery_lastname delivery_postal_code delivery_state
FraudCheckResult: check_items status
SubscriptionResult: contract_name recurring_id recurring_status recurring_deduction_period
    recurring_deduction_time
RefundRecord: transaction_id order_no amount currency refund_amount refund_reason refund_status
    refund_reference refund_reference_id refund_message payment_status refund_date
    refund_processing_date
CaptureRecord: transaction_id order_no currency amount capture_status error_message
CancelRecord: transaction_id order_no currency amount cancel_status error_message
ReviewRecord: transaction_id order_no currency amount review_flag review_status error_message
# 2.8
PayoutResult: +_Payout +_Identity amount_beneficiary_receives amount_payer_pays created_at
    last_updated_at failure_reason failure_type fee_amount fee_currency payer_id transaction_id
    short_reference_id status
BeneficiaryRecord: +Beneficiary
BeneficiaryInfoRecord: +BeneficiaryInfo
BeneficiaryAddressRecord: +BeneficiaryAddress
PersonDocumentRecord: +PersonDocument
PayerRecord: +Payer
PayerInfoRecord: +PayerInfo
PayerAddressRecord: +PayerAddress
BankDetailsRecord: +_BankDetails local_clearing_system
# 4.1: the hidden inputs of the page that a checkout answers with
_CheckoutPage: gbc_id connector_code account_name webSite pm_id apm_type descriptor orderprefix
    rrtimezone ordernumlength sendbgoods replacename send_bank_website replace_up_id
    replace_match_address to_pass_page source_request_ip default_lang defaultLang
    verifyBillingAddress verify_billing_address merSendLogoNo logo_name gatewayNo order_no amount
    currency notify_url shopper_email items encryption_data open3d token_flag token_id price_id
    quote_id quote_price color_depth platform_source device_type custom note discount shipping
    handling insurance item_total tax_total shipping_discount shopper_id shopper_level first_name
    last_name shopper_phone merchant_id account_id billing_country billing_state billing_city
    billing_address billing_postal_code delivery_firstname delivery_lastname delivery_country
    delivery_state delivery_city delivery_address delivery_postal_code orderNo orderAmount
    orderCurrency merNo signInfo firstName lastName email phone country state city zip address
    shipFirstName shipLastName shipCountry shipState shipCity shipZip shipAddress shipFee itemTotal
    taxTotal shippingDiscount goodsInfo remark notifyUrl returnUrl return_url cancelUrl cancel_url
    source_notify_url paymentToken cardType card_type token shopperId shopperLevel isOpen3D APMType
    payment_method allParams
"""


def _read(tables: str) -> dict[str, frozenset[str]]:
    """Return the fields by model; a +name stands for all those of another."""
    found: dict[str, frozenset[str]] = {}
    for name, listed in re.findall(r"^(\w+): (.+(?:\n    .+)*)", tables, re.MULTILINE):
        words = listed.split()
        found[name] = frozenset().union(*(found.get(word[1:], {word}) for word in words))
    return found


_FOUND = _read(_TABLES)
FIELDS = {name: fields for name, fields in _FOUND.items() if not name.startswith("_")}
PAGE_INPUTS = _FOUND["_CheckoutPage"]
