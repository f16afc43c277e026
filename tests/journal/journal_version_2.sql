BEGIN TRANSACTION;
CREATE TABLE gateway_chunks (
	job_id INTEGER NOT NULL, 
	first INTEGER NOT NULL, 
	last INTEGER NOT NULL, 
	slice INTEGER NOT NULL, 
	state TEXT NOT NULL, 
	request_id INTEGER, 
	ended_at DOUBLE, 
	code TEXT DEFAULT '' NOT NULL, 
	text TEXT DEFAULT '' NOT NULL, 
	said TEXT DEFAULT '' NOT NULL, 
	reference TEXT DEFAULT '' NOT NULL, 
	proof TEXT DEFAULT '' NOT NULL, 
	note TEXT DEFAULT '' NOT NULL, 
	exceptions INTEGER DEFAULT '0' NOT NULL, 
	PRIMARY KEY (job_id, first)
)
 WITHOUT ROWID

;
INSERT INTO "gateway_chunks" VALUES(1,0,1,0,'succeeded',1,1.71453239831717276571e+09,'','','','["2024050103000000000001-01","2024050103000000000002-01"]','','',0);
INSERT INTO "gateway_chunks" VALUES(1,2,3,0,'succeeded',2,1.71453239833042407041e+09,'','','','["2024050103000000000003-01",""]','','',1);
INSERT INTO "gateway_chunks" VALUES(2,0,1,0,'unknown',3,1.71453239837720346457e+09,'','the request was sent and its reply was lost: ClientOSError: [Errno 104] Connection reset by peer','','','','',2);
INSERT INTO "gateway_chunks" VALUES(2,2,3,0,'succeeded',4,1.714532398393759489e+09,'','','','["2024050103000000000007-01","2024050103000000000008-01"]','','',0);
INSERT INTO "gateway_chunks" VALUES(3,0,1,0,'unknown',5,1.71453239845346808436e+09,'','the request was sent and its reply was lost: ClientOSError: [Errno 104] Connection reset by peer','','','','',2);
INSERT INTO "gateway_chunks" VALUES(3,2,3,0,'succeeded',6,1.71453239846140718461e+09,'','','','["2024050103000000000011-01","2024050103000000000012-01"]','','',0);
INSERT INTO "gateway_chunks" VALUES(4,0,1,0,'succeeded',7,1.71453239851717352862e+09,'','','','["2024050103000000000015-01","2024050103000000000016-01"]','','',0);
INSERT INTO "gateway_chunks" VALUES(4,2,3,0,'unknown',8,1.71453239852279758453e+09,'2005','refund_status ''0'', 2005: amount is not the order''s: this status has no meaning in the Dialect; ask the gateway, and list it in Dialect.done_statuses, declined_statuses or pending_statuses','amount is not the order''s','','','',2);
INSERT INTO "gateway_chunks" VALUES(5,0,1,4,'new',NULL,NULL,'','','','','','',0);
INSERT INTO "gateway_chunks" VALUES(5,2,2,1,'new',NULL,NULL,'','','','','','',0);
INSERT INTO "gateway_chunks" VALUES(5,3,4,2,'succeeded',9,1.71453239857738971713e+09,'','','','["2024050103000000000020-01","2024050103000000000021-01"]','','',0);
INSERT INTO "gateway_chunks" VALUES(5,5,5,2,'succeeded',10,1.71453239858531641956e+09,'','','','["2024050103000000000022-01"]','','',0);
INSERT INTO "gateway_chunks" VALUES(5,6,6,3,'new',NULL,NULL,'','','','','','',0);
INSERT INTO "gateway_chunks" VALUES(5,7,8,4,'new',NULL,NULL,'','','','','','',0);
INSERT INTO "gateway_chunks" VALUES(7,0,1,1,'new',NULL,NULL,'','','','','','',0);
INSERT INTO "gateway_chunks" VALUES(7,2,3,2,'succeeded',11,1.71453239865360260009e+09,'','','','["2024050103000000000031-01","2024050103000000000032-01"]','','',0);
INSERT INTO "gateway_chunks" VALUES(7,4,5,3,'new',NULL,NULL,'','','','','','',0);
INSERT INTO "gateway_chunks" VALUES(8,0,2,0,'new',NULL,NULL,'','','','','','',0);
INSERT INTO "gateway_chunks" VALUES(9,0,2,0,'new',NULL,NULL,'','','','','','',0);
INSERT INTO "gateway_chunks" VALUES(10,0,2,0,'new',NULL,NULL,'','','','','','',0);
INSERT INTO "gateway_chunks" VALUES(11,0,0,0,'held',15,1.71453239881304764745e+09,'','ask the gateway about request_id ''00000000-0000-0000-0000-000000000000'', since a payout cannot be looked up, and decide (`resolve`); the request was sent and its reply was lost: ClientOSError: [Errno 104] Connection reset by peer; the payout ''00000000-0000-0000-0000-000000000000'' may have been made and cannot be looked up: ask the gateway, and never send it again before you know (unless it deduplicates on request_id: Dialect.payout_deduplicates)','','','','',0);
INSERT INTO "gateway_chunks" VALUES(11,1,1,0,'succeeded',16,1.71453239881663680073e+09,'','','','["2024050103000000000044"]','','',0);
INSERT INTO "gateway_chunks" VALUES(11,2,2,0,'succeeded',17,1.71453239882575154302e+09,'','','','["2024050103000000000045"]','','',0);
INSERT INTO "gateway_chunks" VALUES(12,0,1,0,'unknown',18,1.71453239887877321241e+09,'','the request was sent and its reply was lost: ClientOSError: [Errno 104] Connection reset by peer','','','','',0);
INSERT INTO "gateway_chunks" VALUES(12,2,3,0,'succeeded',19,1.71453239888516211506e+09,'','','','["2024050103000000000048-01","2024050103000000000049-01"]','','',0);
INSERT INTO "gateway_chunks" VALUES(12,4,5,0,'succeeded',20,1.71453239888890028e+09,'','','','["2024050103000000000050-01","2024050103000000000051-01"]','','',0);
INSERT INTO "gateway_chunks" VALUES(13,0,1,0,'succeeded',21,1.7145323994791941643e+09,'','','','["2024050103000000000052-01","2024050103000000000053-01"]','','',0);
INSERT INTO "gateway_chunks" VALUES(13,2,3,0,'succeeded',22,1.71453239998837375646e+09,'','','','["2024050103000000000054-01","2024050103000000000055-01"]','','',0);
INSERT INTO "gateway_chunks" VALUES(13,4,5,0,'intent',23,NULL,'','','','','','',0);
INSERT INTO "gateway_chunks" VALUES(13,6,7,0,'new',NULL,NULL,'','','','','','',0);
CREATE TABLE gateway_exceptions (
	job_id INTEGER NOT NULL, 
	position INTEGER NOT NULL, 
	slice INTEGER NOT NULL, 
	state TEXT NOT NULL, 
	request_id INTEGER, 
	ended_at DOUBLE, 
	code TEXT DEFAULT '' NOT NULL, 
	text TEXT DEFAULT '' NOT NULL, 
	said TEXT DEFAULT '' NOT NULL, 
	reference TEXT DEFAULT '' NOT NULL, 
	proof TEXT DEFAULT '' NOT NULL, 
	note TEXT DEFAULT '' NOT NULL, 
	PRIMARY KEY (job_id, position)
)
 WITHOUT ROWID

;
INSERT INTO "gateway_exceptions" VALUES(1,3,0,'declined',2,1.71453239833042407041e+09,'2203','refund_amount is above what is left of the captured amount','','','','');
INSERT INTO "gateway_exceptions" VALUES(2,0,0,'held',3,1.71453239837720346457e+09,'','recovery proved that it was not done: the gateway lists no refund that could be it; before: the request was sent and its reply was lost: ClientOSError: [Errno 104] Connection reset by peer','','','not done','');
INSERT INTO "gateway_exceptions" VALUES(2,1,0,'held',3,1.71453239837720346457e+09,'','recovery proved that it was not done: the gateway lists no refund that could be it; before: the request was sent and its reply was lost: ClientOSError: [Errno 104] Connection reset by peer','','','not done','');
INSERT INTO "gateway_exceptions" VALUES(3,0,0,'declined',5,1.71453239845346808436e+09,'','an operator decided: not theirs','','','operator','not theirs');
INSERT INTO "gateway_exceptions" VALUES(3,1,0,'new',5,1.71453239845346808436e+09,'','an operator decided: seen in the portal','','','operator','seen in the portal');
INSERT INTO "gateway_exceptions" VALUES(4,2,0,'held',8,1.71453239852279758453e+09,'2005','recovery proved that it was not done: the gateway lists no refund that could be it; before: refund_status ''0'', 2005: amount is not the order''s: this status has no meaning in the Dialect; ask the gateway, and list it in Dialect.done_statuses, declined_statuses or pending_statuses','amount is not the order''s','','not done','');
INSERT INTO "gateway_exceptions" VALUES(4,3,0,'held',8,1.71453239852279758453e+09,'2005','recovery proved that it was not done: the gateway lists no refund that could be it; before: refund_status ''0'', 2005: amount is not the order''s: this status has no meaning in the Dialect; ask the gateway, and list it in Dialect.done_statuses, declined_statuses or pending_statuses','amount is not the order''s','','not done','');
CREATE TABLE gateway_jobs (
	id INTEGER NOT NULL, 
	name TEXT NOT NULL, 
	operation TEXT DEFAULT '' NOT NULL, 
	merchant_id TEXT DEFAULT '' NOT NULL, 
	account_id TEXT DEFAULT '' NOT NULL, 
	created_at DOUBLE NOT NULL, 
	imported BOOLEAN NOT NULL, 
	total INTEGER NOT NULL, 
	slice_size INTEGER DEFAULT '0' NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (name)
);
INSERT INTO "gateway_jobs" VALUES(1,'finished','refund','M1','A1',1.71453239825712084772e+09,1,4,0);
INSERT INTO "gateway_jobs" VALUES(2,'held','refund','M1','A1',1.71453239835311698913e+09,1,4,0);
INSERT INTO "gateway_jobs" VALUES(3,'decided','refund','M1','A1',1.71453239842911744116e+09,1,4,0);
INSERT INTO "gateway_jobs" VALUES(4,'unclear','refund','M1','A1',1.71453239849312829971e+09,1,4,0);
INSERT INTO "gateway_jobs" VALUES(5,'gathered','refund','M1','A1',1.7145323985451097488e+09,1,9,3);
INSERT INTO "gateway_jobs" VALUES(6,'submitting','refund','M1','A1',1.71453239860513734814e+09,0,0,0);
INSERT INTO "gateway_jobs" VALUES(7,'sliced','refund','M1','A1',1.7145323986141095162e+09,1,6,2);
INSERT INTO "gateway_jobs" VALUES(8,'captured','capture','M1','A1',1.71453239867711448667e+09,1,3,0);
INSERT INTO "gateway_jobs" VALUES(9,'cancelled','cancel','M1','A1',1.7145323987131233216e+09,1,3,0);
INSERT INTO "gateway_jobs" VALUES(10,'reviewed','review','M1','A1',1.71453239874510860439e+09,1,3,0);
INSERT INTO "gateway_jobs" VALUES(11,'paid','payout','M1','A1',1.71453239878912353519e+09,1,3,0);
INSERT INTO "gateway_jobs" VALUES(12,'lost','refund','M1','A1',1.71453239883913326267e+09,1,6,0);
INSERT INTO "gateway_jobs" VALUES(13,'stopped','refund','M1','A1',1.71453239890913915633e+09,1,8,0);
CREATE TABLE gateway_journal (
	id INTEGER NOT NULL, 
	version INTEGER NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "gateway_journal" VALUES(1,4);
CREATE TABLE gateway_journal_version (
	version_num VARCHAR(32) NOT NULL, 
	PRIMARY KEY (version_num)
);
INSERT INTO "gateway_journal_version" VALUES('2');
CREATE TABLE gateway_leases (
	job_id INTEGER NOT NULL, 
	slice INTEGER NOT NULL, 
	epoch INTEGER NOT NULL, 
	owner TEXT NOT NULL, 
	expires_at DOUBLE NOT NULL, 
	PRIMARY KEY (job_id, slice)
);
INSERT INTO "gateway_leases" VALUES(1,-1,1,'import fb029d2f-9231-4fbd-99b7-40e31fff4d1d',1.71453239827611088755e+09);
INSERT INTO "gateway_leases" VALUES(1,0,1,'host:1',0.0);
INSERT INTO "gateway_leases" VALUES(2,-1,1,'import 55a97f21-ff13-4c98-a0ce-7d0c66f06611',1.71453239835911178589e+09);
INSERT INTO "gateway_leases" VALUES(2,0,1,'host:1',0.0);
INSERT INTO "gateway_leases" VALUES(3,-1,1,'import 22f00ac5-8d01-4317-93f5-7b41aeab32bb',1.71453239843611812591e+09);
INSERT INTO "gateway_leases" VALUES(3,0,1,'host:1',0.0);
INSERT INTO "gateway_leases" VALUES(4,-1,1,'import 12270020-9b69-4a76-8da9-7d34351c34f5',1.71453239850012898446e+09);
INSERT INTO "gateway_leases" VALUES(4,0,1,'host:1',0.0);
INSERT INTO "gateway_leases" VALUES(5,-1,1,'import c7514425-e7d5-400d-8ebf-8aee676f115c',1.7145323985561335087e+09);
INSERT INTO "gateway_leases" VALUES(5,2,1,'host:1',0.0);
INSERT INTO "gateway_leases" VALUES(6,-1,1,'import 0f32726a-9b54-4611-ac7f-728a5488b3dd',0.0);
INSERT INTO "gateway_leases" VALUES(7,-1,1,'import 83d2daee-70fd-4e29-b3e5-ea2c076a20d8',1.71453239862911653514e+09);
INSERT INTO "gateway_leases" VALUES(7,2,1,'host:1',0.0);
INSERT INTO "gateway_leases" VALUES(8,-1,1,'import 132bf811-815c-4205-803e-a6fea2660ae8',1.71453239868813848492e+09);
INSERT INTO "gateway_leases" VALUES(8,0,1,'host:1',0.0);
INSERT INTO "gateway_leases" VALUES(9,-1,1,'import 2ed1e997-68fe-42f6-a4f5-445ec76e34ac',1.71453239872112965578e+09);
INSERT INTO "gateway_leases" VALUES(9,0,1,'host:1',0.0);
INSERT INTO "gateway_leases" VALUES(10,-1,1,'import 6e7260d1-b4bd-42eb-adac-ed891537cb33',1.71453239875613236429e+09);
INSERT INTO "gateway_leases" VALUES(10,0,1,'host:1',0.0);
INSERT INTO "gateway_leases" VALUES(11,-1,1,'import 1e425c17-91ec-4ca0-bb46-92f43b7edbc3',1.71453239880010724067e+09);
INSERT INTO "gateway_leases" VALUES(11,0,1,'host:1',0.0);
INSERT INTO "gateway_leases" VALUES(12,-1,1,'import 28fad6ab-4b18-4760-be8f-d2ce1c3939d7',1.7145323988521287441e+09);
INSERT INTO "gateway_leases" VALUES(12,0,1,'host:1',1.71453241385812330246e+09);
INSERT INTO "gateway_leases" VALUES(13,-1,1,'import 07a9ec48-0b32-4c24-ae99-aa704eff665a',1.71453239892410564423e+09);
INSERT INTO "gateway_leases" VALUES(13,0,1,'host:1',1.71453241392913484572e+09);
CREATE TABLE gateway_orders (
	job_id INTEGER NOT NULL, 
	first INTEGER NOT NULL, 
	lookup_keys BLOB NOT NULL, 
	bodies TEXT NOT NULL, 
	PRIMARY KEY (job_id, first)
)
 WITHOUT ROWID

;
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
CREATE TABLE gateway_requests (
	id INTEGER NOT NULL, 
	job_id INTEGER NOT NULL, 
	epoch INTEGER NOT NULL, 
	sent_at DOUBLE NOT NULL, 
	marker TEXT, 
	alone BOOLEAN NOT NULL, 
	baseline TEXT DEFAULT '' NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "gateway_requests" VALUES(1,1,1,1.71453239831111383436e+09,NULL,0,'{"2024050103000000000001":[],"2024050103000000000002":[]}');
INSERT INTO "gateway_requests" VALUES(2,1,1,1.71453239832310318953e+09,NULL,0,'{"2024050103000000000003":[],"2024050103000000000004":["2024050103000000000004-01"]}');
INSERT INTO "gateway_requests" VALUES(3,2,1,1.71453239837311291696e+09,NULL,0,'{"2024050103000000000005":[],"2024050103000000000006":[]}');
INSERT INTO "gateway_requests" VALUES(4,2,1,1.71453239838610839839e+09,NULL,0,'{"2024050103000000000007":[],"2024050103000000000008":[]}');
INSERT INTO "gateway_requests" VALUES(5,3,1,1.71453239844714188568e+09,NULL,0,'{"2024050103000000000009":[],"2024050103000000000010":[]}');
INSERT INTO "gateway_requests" VALUES(6,3,1,1.7145323984571197033e+09,NULL,0,'{"2024050103000000000011":[],"2024050103000000000012":[]}');
INSERT INTO "gateway_requests" VALUES(7,4,1,1.7145323985121183395e+09,NULL,0,'{"2024050103000000000015":[],"2024050103000000000016":[]}');
INSERT INTO "gateway_requests" VALUES(8,4,1,1.71453239851911902425e+09,NULL,0,'{"2024050103000000000013":[],"2024050103000000000014":[]}');
INSERT INTO "gateway_requests" VALUES(9,5,1,1.71453239857114052768e+09,NULL,0,'{"2024050103000000000020":[],"2024050103000000000021":[]}');
INSERT INTO "gateway_requests" VALUES(10,5,1,1.7145323985801124573e+09,NULL,0,'{"2024050103000000000022":[]}');
INSERT INTO "gateway_requests" VALUES(11,7,1,1.71453239864810657502e+09,NULL,0,'{"2024050103000000000031":[],"2024050103000000000032":[]}');
INSERT INTO "gateway_requests" VALUES(12,8,1,1.71453239869811630254e+09,NULL,0,'');
INSERT INTO "gateway_requests" VALUES(13,9,1,1.71453239873014187818e+09,NULL,0,'');
INSERT INTO "gateway_requests" VALUES(14,10,1,1.71453239877512240412e+09,NULL,0,'');
INSERT INTO "gateway_requests" VALUES(15,11,1,1.71453239881012535093e+09,NULL,0,'');
INSERT INTO "gateway_requests" VALUES(16,11,1,1.71453239881314277643e+09,NULL,0,'');
INSERT INTO "gateway_requests" VALUES(17,11,1,1.71453239881913757323e+09,NULL,0,'');
INSERT INTO "gateway_requests" VALUES(18,12,1,1.71453239886910700794e+09,NULL,0,'{"2024050103000000000046":[],"2024050103000000000047":[]}');
INSERT INTO "gateway_requests" VALUES(19,12,1,1.71453239888113689428e+09,NULL,0,'{"2024050103000000000048":[],"2024050103000000000049":[]}');
INSERT INTO "gateway_requests" VALUES(20,12,1,1.71453239888713145251e+09,NULL,0,'{"2024050103000000000050":[],"2024050103000000000051":[]}');
INSERT INTO "gateway_requests" VALUES(21,13,1,1.71453239897411561015e+09,NULL,0,'{"2024050103000000000052":[],"2024050103000000000053":[]}');
INSERT INTO "gateway_requests" VALUES(22,13,1,1.71453239948113346103e+09,NULL,0,'{"2024050103000000000054":[],"2024050103000000000055":[]}');
INSERT INTO "gateway_requests" VALUES(23,13,1,1.71453239999112868304e+09,NULL,0,'{"2024050103000000000056":[],"2024050103000000000057":[]}');
CREATE TABLE gateway_slices (
	job_id INTEGER NOT NULL, 
	slice INTEGER NOT NULL, 
	first INTEGER NOT NULL, 
	last INTEGER NOT NULL, 
	total INTEGER NOT NULL, 
	finished BOOLEAN NOT NULL, 
	due_at DOUBLE NOT NULL, 
	tries INTEGER NOT NULL, 
	PRIMARY KEY (job_id, slice)
);
INSERT INTO "gateway_slices" VALUES(5,1,2,2,1,0,0.0,0);
INSERT INTO "gateway_slices" VALUES(5,2,3,5,3,1,1.71453241356313419337e+09,0);
INSERT INTO "gateway_slices" VALUES(5,3,6,6,1,0,0.0,0);
INSERT INTO "gateway_slices" VALUES(5,4,0,8,4,0,0.0,0);
INSERT INTO "gateway_slices" VALUES(7,1,0,1,2,0,0.0,0);
INSERT INTO "gateway_slices" VALUES(7,2,2,3,2,1,1.71453241363712286949e+09,0);
INSERT INTO "gateway_slices" VALUES(7,3,4,5,2,0,0.0,0);
CREATE INDEX gateway_slices_by_time ON gateway_slices (finished, due_at);
CREATE INDEX gateway_requests_by_job ON gateway_requests (job_id);
COMMIT;
