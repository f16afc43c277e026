BEGIN TRANSACTION;
CREATE TABLE gateway_chunks (
    job_id BIGINT NOT NULL, first BIGINT NOT NULL, last BIGINT NOT NULL, slice INTEGER NOT NULL,
    state TEXT NOT NULL, ended_at DOUBLE PRECISION, sent TEXT NOT NULL DEFAULT '',
    reference_list TEXT NOT NULL DEFAULT '', exceptions TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (job_id, first)
);
INSERT INTO "gateway_chunks" VALUES(1,0,1,0,'succeeded',1.71453239831717276571e+09,'{"references": {"2024050103000000000001": [], "2024050103000000000002": []}, "marker": null, "alone": false}','["2024050103000000000001-01","2024050103000000000002-01"]','');
INSERT INTO "gateway_chunks" VALUES(1,2,3,0,'succeeded',1.71453239833042407041e+09,'{"references": {"2024050103000000000003": [], "2024050103000000000004": ["2024050103000000000004-01"]}, "marker": null, "alone": false}','["2024050103000000000003-01",""]','[{"at":[1],"known":{"state":"declined","code":"2203","text":"refund_amount is above what is left of the captured amount","ended_at":1714532398.330424,"sent":"{\"references\": {\"2024050103000000000003\": [], \"2024050103000000000004\": [\"2024050103000000000004-01\"]}, \"marker\": null, \"alone\": false}"}}]');
INSERT INTO "gateway_chunks" VALUES(2,0,1,0,'held',1.71453239837720346457e+09,'{"references": {"2024050103000000000005": [], "2024050103000000000006": []}, "marker": null, "alone": false}','','[{"at":[0,1],"known":{"state":"held","text":"recovery proved that it was not done: the gateway lists no refund that could be it; before: the request was sent and its reply was lost: ClientOSError: [Errno 104] Connection reset by peer","proof":"not done","ended_at":1714532398.3772035,"sent":"{\"references\": {\"2024050103000000000005\": [], \"2024050103000000000006\": []}, \"marker\": null, \"alone\": false}"}}]');
INSERT INTO "gateway_chunks" VALUES(2,2,3,0,'succeeded',1.714532398393759489e+09,'{"references": {"2024050103000000000007": [], "2024050103000000000008": []}, "marker": null, "alone": false}','["2024050103000000000007-01","2024050103000000000008-01"]','');
INSERT INTO "gateway_chunks" VALUES(3,0,1,0,'declined',1.71453239845346808436e+09,'{"references": {"2024050103000000000009": [], "2024050103000000000010": []}, "marker": null, "alone": false}','','[{"at":[0],"known":{"state":"declined","text":"an operator decided: not theirs","proof":"operator","note":"not theirs","ended_at":1714532398.453468,"sent":"{\"references\": {\"2024050103000000000009\": [], \"2024050103000000000010\": []}, \"marker\": null, \"alone\": false}"}},{"at":[1],"known":{"state":"new","text":"an operator decided: seen in the portal","proof":"operator","note":"seen in the portal","ended_at":1714532398.453468,"sent":"{\"references\": {\"2024050103000000000009\": [], \"2024050103000000000010\": []}, \"marker\": null, \"alone\": false}"}}]');
INSERT INTO "gateway_chunks" VALUES(3,2,3,0,'succeeded',1.71453239846140718461e+09,'{"references": {"2024050103000000000011": [], "2024050103000000000012": []}, "marker": null, "alone": false}','["2024050103000000000011-01","2024050103000000000012-01"]','');
INSERT INTO "gateway_chunks" VALUES(4,0,1,0,'succeeded',1.71453239851717352862e+09,'{"references": {"2024050103000000000015": [], "2024050103000000000016": []}, "marker": null, "alone": false}','["2024050103000000000015-01","2024050103000000000016-01"]','');
INSERT INTO "gateway_chunks" VALUES(4,2,3,0,'held',1.71453239852279758453e+09,'{"references": {"2024050103000000000013": [], "2024050103000000000014": []}, "marker": null, "alone": false}','','[{"at":[0,1],"known":{"state":"held","code":"2005","text":"recovery proved that it was not done: the gateway lists no refund that could be it; before: refund_status ''0'', 2005: amount is not the order''s: this status has no meaning in the Dialect; ask the gateway, and list it in Dialect.done_statuses, declined_statuses or pending_statuses","said":"amount is not the order''s","proof":"not done","ended_at":1714532398.5227976,"sent":"{\"references\": {\"2024050103000000000013\": [], \"2024050103000000000014\": []}, \"marker\": null, \"alone\": false}"}}]');
INSERT INTO "gateway_chunks" VALUES(5,0,1,4,'new',NULL,'','','');
INSERT INTO "gateway_chunks" VALUES(5,2,2,1,'new',NULL,'','','');
INSERT INTO "gateway_chunks" VALUES(5,3,4,2,'succeeded',1.71453239857738971713e+09,'{"references": {"2024050103000000000020": [], "2024050103000000000021": []}, "marker": null, "alone": false}','["2024050103000000000020-01","2024050103000000000021-01"]','');
INSERT INTO "gateway_chunks" VALUES(5,5,5,2,'succeeded',1.71453239858531641956e+09,'{"references": {"2024050103000000000022": []}, "marker": null, "alone": false}','["2024050103000000000022-01"]','');
INSERT INTO "gateway_chunks" VALUES(5,6,6,3,'new',NULL,'','','');
INSERT INTO "gateway_chunks" VALUES(5,7,8,4,'new',NULL,'','','');
INSERT INTO "gateway_chunks" VALUES(7,0,1,1,'new',NULL,'','','');
INSERT INTO "gateway_chunks" VALUES(7,2,3,2,'succeeded',1.71453239865360260009e+09,'{"references": {"2024050103000000000031": [], "2024050103000000000032": []}, "marker": null, "alone": false}','["2024050103000000000031-01","2024050103000000000032-01"]','');
INSERT INTO "gateway_chunks" VALUES(7,4,5,3,'new',NULL,'','','');
INSERT INTO "gateway_chunks" VALUES(8,0,2,0,'new',NULL,'','','');
INSERT INTO "gateway_chunks" VALUES(9,0,2,0,'new',NULL,'','','');
INSERT INTO "gateway_chunks" VALUES(10,0,2,0,'new',NULL,'','','');
INSERT INTO "gateway_chunks" VALUES(11,0,0,0,'held',1.71453239881304764745e+09,'{"references": {}, "marker": null, "alone": false}','','[{"at":[0],"known":{"state":"held","text":"ask the gateway about request_id ''00000000-0000-0000-0000-000000000000'', since a payout cannot be looked up, and decide (`resolve`); the request was sent and its reply was lost: ClientOSError: [Errno 104] Connection reset by peer; the payout ''00000000-0000-0000-0000-000000000000'' may have been made and cannot be looked up: ask the gateway, and never send it again before you know (unless it deduplicates on request_id: Dialect.payout_deduplicates)","ended_at":1714532398.8130476,"sent":"{\"references\": {}, \"marker\": null, \"alone\": false}"}}]');
INSERT INTO "gateway_chunks" VALUES(11,1,1,0,'succeeded',1.71453239881663680073e+09,'{"references": {}, "marker": null, "alone": false}','["2024050103000000000044"]','');
INSERT INTO "gateway_chunks" VALUES(11,2,2,0,'succeeded',1.71453239882575154302e+09,'{"references": {}, "marker": null, "alone": false}','["2024050103000000000045"]','');
INSERT INTO "gateway_chunks" VALUES(12,0,1,0,'unknown',1.71453239887877321241e+09,'{"references": {"2024050103000000000046": [], "2024050103000000000047": []}, "marker": null, "alone": false}','','[{"at":[0,1],"known":{"state":"unknown","text":"the request was sent and its reply was lost: ClientOSError: [Errno 104] Connection reset by peer","ended_at":1714532398.8787732,"sent":"{\"references\": {\"2024050103000000000046\": [], \"2024050103000000000047\": []}, \"marker\": null, \"alone\": false}"}}]');
INSERT INTO "gateway_chunks" VALUES(12,2,3,0,'succeeded',1.71453239888516211506e+09,'{"references": {"2024050103000000000048": [], "2024050103000000000049": []}, "marker": null, "alone": false}','["2024050103000000000048-01","2024050103000000000049-01"]','');
INSERT INTO "gateway_chunks" VALUES(12,4,5,0,'succeeded',1.71453239888890028e+09,'{"references": {"2024050103000000000050": [], "2024050103000000000051": []}, "marker": null, "alone": false}','["2024050103000000000050-01","2024050103000000000051-01"]','');
INSERT INTO "gateway_chunks" VALUES(13,0,1,0,'succeeded',1.7145323994791941643e+09,'{"references": {"2024050103000000000052": [], "2024050103000000000053": []}, "marker": null, "alone": false}','["2024050103000000000052-01","2024050103000000000053-01"]','');
INSERT INTO "gateway_chunks" VALUES(13,2,3,0,'succeeded',1.71453239998837375646e+09,'{"references": {"2024050103000000000054": [], "2024050103000000000055": []}, "marker": null, "alone": false}','["2024050103000000000054-01","2024050103000000000055-01"]','');
INSERT INTO "gateway_chunks" VALUES(13,4,5,0,'intent',NULL,'{"references": {"2024050103000000000056": [], "2024050103000000000057": []}, "marker": null, "alone": false}','','');
INSERT INTO "gateway_chunks" VALUES(13,6,7,0,'new',NULL,'','','');
CREATE TABLE gateway_jobs (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, operation TEXT NOT NULL, merchant_id TEXT NOT NULL,
    account_id TEXT NOT NULL, created_at DOUBLE PRECISION NOT NULL, imported BOOLEAN NOT NULL,
    total BIGINT NOT NULL, slice_size BIGINT NOT NULL, gateway TEXT NOT NULL DEFAULT ''
);
INSERT INTO "gateway_jobs" VALUES(1,'finished','refund','M1','A1',1.71453239825712084772e+09,1,4,0,'');
INSERT INTO "gateway_jobs" VALUES(2,'held','refund','M1','A1',1.71453239835311698913e+09,1,4,0,'');
INSERT INTO "gateway_jobs" VALUES(3,'decided','refund','M1','A1',1.71453239842911744116e+09,1,4,0,'');
INSERT INTO "gateway_jobs" VALUES(4,'unclear','refund','M1','A1',1.71453239849312829971e+09,1,4,0,'');
INSERT INTO "gateway_jobs" VALUES(5,'gathered','refund','M1','A1',1.7145323985451097488e+09,1,9,3,'');
INSERT INTO "gateway_jobs" VALUES(6,'submitting','refund','M1','A1',1.71453239860513734814e+09,0,0,0,'');
INSERT INTO "gateway_jobs" VALUES(7,'sliced','refund','M1','A1',1.7145323986141095162e+09,1,6,2,'');
INSERT INTO "gateway_jobs" VALUES(8,'captured','capture','M1','A1',1.71453239867711448667e+09,1,3,0,'');
INSERT INTO "gateway_jobs" VALUES(9,'cancelled','cancel','M1','A1',1.7145323987131233216e+09,1,3,0,'');
INSERT INTO "gateway_jobs" VALUES(10,'reviewed','review','M1','A1',1.71453239874510860439e+09,1,3,0,'');
INSERT INTO "gateway_jobs" VALUES(11,'paid','payout','M1','A1',1.71453239878912353519e+09,1,3,0,'');
INSERT INTO "gateway_jobs" VALUES(12,'lost','refund','M1','A1',1.71453239883913326267e+09,1,6,0,'');
INSERT INTO "gateway_jobs" VALUES(13,'stopped','refund','M1','A1',1.71453239890913915633e+09,1,8,0,'');
CREATE TABLE gateway_journal_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY);
INSERT INTO "gateway_journal_version" VALUES('3');
CREATE TABLE gateway_orders (
    job_id BIGINT NOT NULL, first BIGINT NOT NULL, lookup_keys BLOB NOT NULL,
    bodies TEXT NOT NULL, PRIMARY KEY (job_id, first)
) WITHOUT ROWID;
INSERT INTO "gateway_orders" VALUES(1,0,X'2A5E5314900F5A8D063F5DFAA5AA3964','{"transaction_id":["2024050103000000000001","2024050103000000000002","2024050103000000000003","2024050103000000000004"],"order_no":["S00000001","S00000002","S00000003","S00000004"],"currency":["EUR","EUR","EUR","EUR"],"amount":["10.00","10.00","10.00","10.00"],"refund_amount":["1.00","2.5","3","0.10"],"refund_reason":["","zurück, \"ganz\"","换货","a\tb"]}');
INSERT INTO "gateway_orders" VALUES(2,0,X'339A3E1389CB378A1FFB30FD8EE68F6D','{"transaction_id":["2024050103000000000005","2024050103000000000006","2024050103000000000007","2024050103000000000008"],"order_no":["S00000005","S00000006","S00000007","S00000008"],"currency":["EUR","EUR","EUR","EUR"],"amount":["10.00","10.00","10.00","10.00"],"refund_amount":["1.00","2.5","3","0.10"],"refund_reason":["","zurück, \"ganz\"","换货","a\tb"]}');
INSERT INTO "gateway_orders" VALUES(3,0,X'18D6881AFD5F4F7A6B6F480DD13E4194','{"transaction_id":["2024050103000000000009","2024050103000000000010","2024050103000000000011","2024050103000000000012"],"order_no":["S00000009","S00000010","S00000011","S00000012"],"currency":["EUR","EUR","EUR","EUR"],"amount":["10.00","10.00","10.00","10.00"],"refund_amount":["1.00","2.5","3","0.10"],"refund_reason":["","zurück, \"ganz\"","换货","a\tb"]}');
INSERT INTO "gateway_orders" VALUES(4,0,X'72AB250AC8FA2C93470E46E3E49B227D','{"transaction_id":["2024050103000000000015","2024050103000000000016","2024050103000000000013","2024050103000000000014"],"order_no":["S00000015","S00000016","S00000013","S00000014"],"currency":["EUR","EUR","EUR","EUR"],"amount":["10.00","10.00","99.00","99.00"],"refund_amount":["1.00","2.5","1.00","2.5"],"refund_reason":["","zurück, \"ganz\"","","zurück, \"ganz\""]}');
INSERT INTO "gateway_orders" VALUES(5,0,X'5ECA2BE4CFD7947459E793033E0C6251A83C6526126D6CBF845D6BC85ECA2BE4CFD79474','{"transaction_id":["2024050103000000000017","2024050103000000000018","2024050103000000000019","2024050103000000000020","2024050103000000000021","2024050103000000000022","2024050103000000000023","2024050103000000000017","2024050103000000000018"],"order_no":["S00000017","S00000018","S00000019","S00000020","S00000021","S00000022","S00000023","S00000017","S00000018"],"currency":["EUR","EUR","EUR","EUR","EUR","EUR","EUR","EUR","EUR"],"amount":["10.00","10.00","10.00","10.00","10.00","10.00","10.00","10.00","10.00"],"refund_amount":["1.00","2.5","3","0.10","1.00","2.5","3","0.05","0.05"],"refund_reason":["","zurück, \"ganz\"","换货","a\tb","","zurück, \"ganz\"","换货","","zurück, \"ganz\""]}');
INSERT INTO "gateway_orders" VALUES(7,0,X'9AB4BE287F3D7948E90D7E3F535C77A6C56C70D166F9144F','{"transaction_id":["2024050103000000000029","2024050103000000000030","2024050103000000000031","2024050103000000000032","2024050103000000000033","2024050103000000000034"],"order_no":["S00000029","S00000030","S00000031","S00000032","S00000033","S00000034"],"currency":["EUR","EUR","EUR","EUR","EUR","EUR"],"amount":["10.00","10.00","10.00","10.00","10.00","10.00"],"refund_amount":["1.00","2.5","3","0.10","1.00","2.5"],"refund_reason":["","zurück, \"ganz\"","换货","a\tb","","zurück, \"ganz\""]}');
INSERT INTO "gateway_orders" VALUES(8,0,X'F0C913384A981AA1DCA81DD6','{"transaction_id":["2024050103000000000035","2024050103000000000036","2024050103000000000037"],"order_no":["S00000035","S00000036","S00000037"],"currency":["EUR","EUR","EUR"],"amount":["10.00","10.00","10.00"]}');
INSERT INTO "gateway_orders" VALUES(9,0,X'4DB5A246DB85A531B8AB3807','{"transaction_id":["2024050103000000000038","2024050103000000000039","2024050103000000000040"],"order_no":["S00000038","S00000039","S00000040"],"currency":["EUR","EUR","EUR"],"amount":["10.00","10.00","10.00"]}');
INSERT INTO "gateway_orders" VALUES(10,0,X'2E9B3F7094CA36E902FA319E','{"transaction_id":["2024050103000000000041","2024050103000000000042","2024050103000000000043"],"order_no":["S00000041","S00000042","S00000043"],"currency":["EUR","EUR","EUR"],"amount":["10.00","10.00","10.00"],"review_flag":["2","2","2"]}');
INSERT INTO "gateway_orders" VALUES(11,0,X'89DA51811FEA56F6A5BB5F6F','{"request_id":["00000000-0000-0000-0000-000000000000","00000000-0000-0000-0000-000000000001","00000000-0000-0000-0000-000000000002"],"payment_amount":["10.00","10.00","10.00"],"payment_currency":["EUR","EUR","EUR"],"beneficiary":[{"first_name":"Ada","date_of_birth":"1990-01-31","additional_info":{"personal_id_number":"P0"},"person_documents":[{"file_type":"ID","labels":["front","back"]}],"bank_details":{"account_number":"DE00000000"}},{"first_name":"Ada","date_of_birth":"1990-01-31","additional_info":{"personal_id_number":"P1"},"person_documents":[{"file_type":"ID","labels":["front","back"]}],"bank_details":{"account_number":"DE00000001"}},{"first_name":"Ada","date_of_birth":"1990-01-31","additional_info":{"personal_id_number":"P2"},"person_documents":[{"file_type":"ID","labels":["front","back"]}],"bank_details":{"account_number":"DE00000002"}}],"beneficiary_id":[null,null,null],"client_data":[null,null,null],"fee_paid_by":[null,null,null],"payer":[null,null,null],"source_amount":[null,null,null],"source_currency":[null,null,null],"payment_date":["2026-11-20","2026-11-20","2026-11-20"],"payment_method":[null,null,null],"reason":[null,null,null],"reference":[null,null,null],"swift_charge_option":[null,null,null],"fund_source":[null,null,null],"notify_url":[null,null,null]}');
INSERT INTO "gateway_orders" VALUES(12,0,X'8D0E5BEE1B3E5C998A23E3091C13E47EF99A231E6FAA2469','{"transaction_id":["2024050103000000000046","2024050103000000000047","2024050103000000000048","2024050103000000000049","2024050103000000000050","2024050103000000000051"],"order_no":["S00000044","S00000045","S00000046","S00000047","S00000048","S00000049"],"currency":["EUR","EUR","EUR","EUR","EUR","EUR"],"amount":["10.00","10.00","10.00","10.00","10.00","10.00"],"refund_amount":["1.00","2.5","3","0.10","1.00","2.5"],"refund_reason":["","zurück, \"ganz\"","换货","a\tb","","zurück, \"ganz\""]}');
INSERT INTO "gateway_orders" VALUES(13,0,X'D5FB2DF043CB2A87E05E4E19766E496ECC3F40F75A0F4780CB12F8105D22FF67','{"transaction_id":["2024050103000000000052","2024050103000000000053","2024050103000000000054","2024050103000000000055","2024050103000000000056","2024050103000000000057","2024050103000000000058","2024050103000000000059"],"order_no":["S00000050","S00000051","S00000052","S00000053","S00000054","S00000055","S00000056","S00000057"],"currency":["EUR","EUR","EUR","EUR","EUR","EUR","EUR","EUR"],"amount":["10.00","10.00","10.00","10.00","10.00","10.00","10.00","10.00"],"refund_amount":["1.00","2.5","3","0.10","1.00","2.5","3","0.10"],"refund_reason":["","zurück, \"ganz\"","换货","a\tb","","zurück, \"ganz\"","换货","a\tb"]}');
CREATE TABLE gateway_payout_keys (
    request_id TEXT NOT NULL, job_id BIGINT NOT NULL, position BIGINT NOT NULL,
    PRIMARY KEY (request_id, job_id, position)
) WITHOUT ROWID;
INSERT INTO "gateway_payout_keys" VALUES('00000000-0000-0000-0000-000000000000',11,0);
INSERT INTO "gateway_payout_keys" VALUES('00000000-0000-0000-0000-000000000001',11,1);
INSERT INTO "gateway_payout_keys" VALUES('00000000-0000-0000-0000-000000000002',11,2);
CREATE TABLE gateway_slices (
    job_id BIGINT NOT NULL, slice INTEGER NOT NULL, first BIGINT NOT NULL, last BIGINT NOT NULL,
    total BIGINT NOT NULL, finished BOOLEAN NOT NULL DEFAULT FALSE,
    due_at DOUBLE PRECISION NOT NULL DEFAULT 0, epoch BIGINT NOT NULL DEFAULT 0,
    owner TEXT NOT NULL DEFAULT '', expires_at DOUBLE PRECISION NOT NULL DEFAULT 0,
    PRIMARY KEY (job_id, slice)
);
INSERT INTO "gateway_slices" VALUES(5,1,2,2,1,0,0.0,0,'',0.0);
INSERT INTO "gateway_slices" VALUES(5,2,3,5,3,1,1.71453241356313419337e+09,1,'host:1',0.0);
INSERT INTO "gateway_slices" VALUES(5,3,6,6,1,0,0.0,0,'',0.0);
INSERT INTO "gateway_slices" VALUES(5,4,0,8,4,0,0.0,0,'',0.0);
INSERT INTO "gateway_slices" VALUES(7,1,0,1,2,0,0.0,0,'',0.0);
INSERT INTO "gateway_slices" VALUES(7,2,2,3,2,1,1.71453241363712286949e+09,1,'host:1',0.0);
INSERT INTO "gateway_slices" VALUES(7,3,4,5,2,0,0.0,0,'',0.0);
INSERT INTO "gateway_slices" VALUES(1,0,0,3,4,0,0.0,1,'host:1',0.0);
INSERT INTO "gateway_slices" VALUES(2,0,0,3,4,0,0.0,1,'host:1',0.0);
INSERT INTO "gateway_slices" VALUES(3,0,0,3,4,0,0.0,1,'host:1',0.0);
INSERT INTO "gateway_slices" VALUES(4,0,0,3,4,0,0.0,1,'host:1',0.0);
INSERT INTO "gateway_slices" VALUES(6,0,0,-1,0,0,0.0,0,'',0.0);
INSERT INTO "gateway_slices" VALUES(8,0,0,2,3,0,0.0,1,'host:1',0.0);
INSERT INTO "gateway_slices" VALUES(9,0,0,2,3,0,0.0,1,'host:1',0.0);
INSERT INTO "gateway_slices" VALUES(10,0,0,2,3,0,0.0,1,'host:1',0.0);
INSERT INTO "gateway_slices" VALUES(11,0,0,2,3,0,0.0,1,'host:1',0.0);
INSERT INTO "gateway_slices" VALUES(12,0,0,5,6,0,0.0,1,'host:1',1.71453241385812330246e+09);
INSERT INTO "gateway_slices" VALUES(13,0,0,7,8,0,0.0,1,'host:1',1.71453241392913484572e+09);
CREATE INDEX gateway_slices_by_time ON gateway_slices (finished, due_at);
CREATE INDEX gateway_payout_keys_by_job ON gateway_payout_keys (job_id, position);
COMMIT;
