BEGIN TRANSACTION;
CREATE TABLE gateway_jobs (
	id INTEGER NOT NULL, 
	name TEXT NOT NULL, 
	operation TEXT DEFAULT '' NOT NULL, 
	merchant_id TEXT DEFAULT '' NOT NULL, 
	account_id TEXT DEFAULT '' NOT NULL, 
	created_at DOUBLE NOT NULL, 
	imported BOOLEAN NOT NULL, 
	total INTEGER NOT NULL, 
	digest TEXT DEFAULT '' NOT NULL, 
	slice_size INTEGER DEFAULT '0' NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (name)
);
INSERT INTO "gateway_jobs" VALUES(1,'finished','refund','M1','A1',1.71453239858927273748e+09,1,4,'297f61ae76d97aa0740efe1a441868412b99e6429a56fd327a9311f1e88f0fa5',0);
INSERT INTO "gateway_jobs" VALUES(2,'held','refund','M1','A1',1.71453239864628314975e+09,1,4,'6e0926019052ac9f2418993be2160813f08ebbea4d93ea806d87700f41ab3f81',0);
INSERT INTO "gateway_jobs" VALUES(3,'decided','refund','M1','A1',1.71453239869625282286e+09,1,4,'74f8d4761f6e41a6db95e77faee666d2ede2394d36ae3d69e6f5bba78f2d1f92',0);
INSERT INTO "gateway_jobs" VALUES(4,'unclear','refund','M1','A1',1.71453239873527884485e+09,1,4,'5167697f9f7821a7e5740ce7ddf7e40d88a50ae975fcd1979ea38768b9c3268f',0);
INSERT INTO "gateway_jobs" VALUES(5,'gathered','refund','M1','A1',1.71453239877325892444e+09,1,9,'2408798ca41570376e8af155ef0722f9d7657bb3921274dc7d058c58529cf146',3);
INSERT INTO "gateway_jobs" VALUES(6,'submitting','refund','M1','A1',1.7145323988162682056e+09,0,0,'',0);
INSERT INTO "gateway_jobs" VALUES(7,'sliced','refund','M1','A1',1.7145323988222630024e+09,1,6,'d52af6784e05eea9d8cf78ec8da162002e2b75325ddf8ac56b1d8fceb92948b2',2);
INSERT INTO "gateway_jobs" VALUES(8,'captured','capture','M1','A1',1.71453239885026526446e+09,1,3,'9257e5d1d1015e1fc421c38d4fd80e838afac6a581827b1b86afccf078974900',0);
INSERT INTO "gateway_jobs" VALUES(9,'cancelled','cancel','M1','A1',1.71453239887126684189e+09,1,3,'36829436f41ca6437e47b35479d089300b68572d58190c892972b3495cfc61e5',0);
INSERT INTO "gateway_jobs" VALUES(10,'reviewed','review','M1','A1',1.71453239889226865763e+09,1,3,'5594d3bd1b924263cb23728bf45f75883d89c2dfac22b4af53b91a88f887b206',0);
INSERT INTO "gateway_jobs" VALUES(11,'lost','refund','M1','A1',1.71453239891327023506e+09,1,6,'f054a65454b822b56d9c50b5ba889c6c55d93744a313c0f8a16536cfd939f492',0);
INSERT INTO "gateway_jobs" VALUES(12,'stopped','refund','M1','A1',1.71453239896227431298e+09,1,8,'82a5d37d1f314074f6fbd2350fd793810f158be980edf33f7bd37ed52ff44b7e',0);
CREATE TABLE gateway_journal (
	id INTEGER NOT NULL, 
	version INTEGER NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "gateway_journal" VALUES(1,3);
CREATE TABLE gateway_leases (
	job_id INTEGER NOT NULL, 
	slice INTEGER NOT NULL, 
	epoch INTEGER NOT NULL, 
	owner TEXT NOT NULL, 
	expires_at DOUBLE NOT NULL, 
	PRIMARY KEY (job_id, slice)
);
INSERT INTO "gateway_leases" VALUES(1,-1,1,'import e70523b4-7edf-46c3-a504-028e98db0ca2',1.71453239860226821903e+09);
INSERT INTO "gateway_leases" VALUES(1,0,1,'host:1',0.0);
INSERT INTO "gateway_leases" VALUES(2,-1,1,'import f075c877-8739-4180-b293-b036c351fa9f',1.71453239864926052088e+09);
INSERT INTO "gateway_leases" VALUES(2,0,1,'host:1',0.0);
INSERT INTO "gateway_leases" VALUES(3,-1,1,'import ca0bee6e-b801-4301-8329-251cceb78b97',1.7145323986992702484e+09);
INSERT INTO "gateway_leases" VALUES(3,0,1,'host:1',0.0);
INSERT INTO "gateway_leases" VALUES(4,-1,1,'import 819f13a3-b102-4994-a047-312e3f701146',1.71453239873825621607e+09);
INSERT INTO "gateway_leases" VALUES(4,0,1,'host:1',0.0);
INSERT INTO "gateway_leases" VALUES(5,-1,1,'import 8c150531-65a7-4345-9fd2-11973f480f94',1.71453239877925372124e+09);
INSERT INTO "gateway_leases" VALUES(5,2,1,'host:1',0.0);
INSERT INTO "gateway_leases" VALUES(6,-1,1,'import f72e6064-b211-4f11-b594-257b1192d706',0.0);
INSERT INTO "gateway_leases" VALUES(7,-1,1,'import b5254160-6545-4e38-ab38-0791bc5b91de',1.71453239882729220394e+09);
INSERT INTO "gateway_leases" VALUES(7,2,1,'host:1',0.0);
INSERT INTO "gateway_leases" VALUES(8,-1,1,'import d70cf1cd-ee8d-4ac5-abcc-4e9502669a59',1.71453239885428857804e+09);
INSERT INTO "gateway_leases" VALUES(8,0,1,'host:1',0.0);
INSERT INTO "gateway_leases" VALUES(9,-1,1,'import 125c9be9-f97f-4a23-adb2-690eb11f9e35',1.71453239887529015538e+09);
INSERT INTO "gateway_leases" VALUES(9,0,1,'host:1',0.0);
INSERT INTO "gateway_leases" VALUES(10,-1,1,'import 4cbcf1ba-ac12-4a0a-9b07-dfef724e0312',1.71453239889528608322e+09);
INSERT INTO "gateway_leases" VALUES(10,0,1,'host:1',0.0);
INSERT INTO "gateway_leases" VALUES(11,-1,1,'import 1acf0a9a-2219-4485-a2a2-5f2c98b8bf9d',1.71453239891725325591e+09);
INSERT INTO "gateway_leases" VALUES(11,0,1,'host:1',1.71453241391926503186e+09);
INSERT INTO "gateway_leases" VALUES(12,-1,1,'import 876db057-e025-40b7-aecc-5755882f1f21',1.71453239896826910978e+09);
INSERT INTO "gateway_leases" VALUES(12,0,1,'host:1',1.71453241397028064733e+09);
CREATE TABLE gateway_orders (
	job_id INTEGER NOT NULL, 
	first INTEGER NOT NULL, 
	lookup_keys BLOB NOT NULL, 
	bodies TEXT NOT NULL, 
	PRIMARY KEY (job_id, first)
)
 WITHOUT ROWID

;
INSERT INTO "gateway_orders" VALUES(1,0,X'2A5E5314900F5A8D063F5DFAA5AA3964','{"fields":["transaction_id","order_no","currency","amount","refund_amount","refund_reason"],"orders":[["2024050103000000000001","S00000001","EUR","10.00","1.00",""],["2024050103000000000002","S00000002","EUR","10.00","2.5","zurück, \"ganz\""],["2024050103000000000003","S00000003","EUR","10.00","3","换货"],["2024050103000000000004","S00000004","EUR","10.00","0.10","a\tb"]]}');
INSERT INTO "gateway_orders" VALUES(2,0,X'339A3E1389CB378A1FFB30FD8EE68F6D','{"fields":["transaction_id","order_no","currency","amount","refund_amount","refund_reason"],"orders":[["2024050103000000000005","S00000005","EUR","10.00","1.00",""],["2024050103000000000006","S00000006","EUR","10.00","2.5","zurück, \"ganz\""],["2024050103000000000007","S00000007","EUR","10.00","3","换货"],["2024050103000000000008","S00000008","EUR","10.00","0.10","a\tb"]]}');
INSERT INTO "gateway_orders" VALUES(3,0,X'18D6881AFD5F4F7A6B6F480DD13E4194','{"fields":["transaction_id","order_no","currency","amount","refund_amount","refund_reason"],"orders":[["2024050103000000000009","S00000009","EUR","10.00","1.00",""],["2024050103000000000010","S00000010","EUR","10.00","2.5","zurück, \"ganz\""],["2024050103000000000011","S00000011","EUR","10.00","3","换货"],["2024050103000000000012","S00000012","EUR","10.00","0.10","a\tb"]]}');
INSERT INTO "gateway_orders" VALUES(4,0,X'72AB250AC8FA2C93470E46E3E49B227D','{"fields":["transaction_id","order_no","currency","amount","refund_amount","refund_reason"],"orders":[["2024050103000000000015","S00000015","EUR","10.00","1.00",""],["2024050103000000000016","S00000016","EUR","10.00","2.5","zurück, \"ganz\""],["2024050103000000000013","S00000013","EUR","99.00","1.00",""],["2024050103000000000014","S00000014","EUR","99.00","2.5","zurück, \"ganz\""]]}');
INSERT INTO "gateway_orders" VALUES(5,0,X'5ECA2BE4CFD7947459E793033E0C6251A83C6526126D6CBF845D6BC85ECA2BE4CFD79474','{"fields":["transaction_id","order_no","currency","amount","refund_amount","refund_reason"],"orders":[["2024050103000000000017","S00000017","EUR","10.00","1.00",""],["2024050103000000000018","S00000018","EUR","10.00","2.5","zurück, \"ganz\""],["2024050103000000000019","S00000019","EUR","10.00","3","换货"],["2024050103000000000020","S00000020","EUR","10.00","0.10","a\tb"],["2024050103000000000021","S00000021","EUR","10.00","1.00",""],["2024050103000000000022","S00000022","EUR","10.00","2.5","zurück, \"ganz\""],["2024050103000000000023","S00000023","EUR","10.00","3","换货"],["2024050103000000000017","S00000017","EUR","10.00","0.05",""],["2024050103000000000018","S00000018","EUR","10.00","0.05","zurück, \"ganz\""]]}');
INSERT INTO "gateway_orders" VALUES(7,0,X'9AB4BE287F3D7948E90D7E3F535C77A6C56C70D166F9144F','{"fields":["transaction_id","order_no","currency","amount","refund_amount","refund_reason"],"orders":[["2024050103000000000029","S00000029","EUR","10.00","1.00",""],["2024050103000000000030","S00000030","EUR","10.00","2.5","zurück, \"ganz\""],["2024050103000000000031","S00000031","EUR","10.00","3","换货"],["2024050103000000000032","S00000032","EUR","10.00","0.10","a\tb"],["2024050103000000000033","S00000033","EUR","10.00","1.00",""],["2024050103000000000034","S00000034","EUR","10.00","2.5","zurück, \"ganz\""]]}');
INSERT INTO "gateway_orders" VALUES(8,0,X'F0C913384A981AA1DCA81DD6','{"fields":["transaction_id","order_no","currency","amount"],"orders":[["2024050103000000000035","S00000035","EUR","10.00"],["2024050103000000000036","S00000036","EUR","10.00"],["2024050103000000000037","S00000037","EUR","10.00"]]}');
INSERT INTO "gateway_orders" VALUES(9,0,X'4DB5A246DB85A531B8AB3807','{"fields":["transaction_id","order_no","currency","amount"],"orders":[["2024050103000000000038","S00000038","EUR","10.00"],["2024050103000000000039","S00000039","EUR","10.00"],["2024050103000000000040","S00000040","EUR","10.00"]]}');
INSERT INTO "gateway_orders" VALUES(10,0,X'2E9B3F7094CA36E902FA319E','{"fields":["transaction_id","order_no","currency","amount","review_flag"],"orders":[["2024050103000000000041","S00000041","EUR","10.00","2"],["2024050103000000000042","S00000042","EUR","10.00","2"],["2024050103000000000043","S00000043","EUR","10.00","2"]]}');
INSERT INTO "gateway_orders" VALUES(11,0,X'A16F5500375F52778D0E5BEE1B3E5C998A23E3091C13E47E','{"fields":["transaction_id","order_no","currency","amount","refund_amount","refund_reason"],"orders":[["2024050103000000000044","S00000044","EUR","10.00","1.00",""],["2024050103000000000045","S00000045","EUR","10.00","2.5","zurück, \"ganz\""],["2024050103000000000046","S00000046","EUR","10.00","3","换货"],["2024050103000000000047","S00000047","EUR","10.00","0.10","a\tb"],["2024050103000000000048","S00000048","EUR","10.00","1.00",""],["2024050103000000000049","S00000049","EUR","10.00","2.5","zurück, \"ganz\""]]}');
INSERT INTO "gateway_orders" VALUES(12,0,X'F99A231E6FAA2469D5FB2DF043CB2A87E05E4E19766E496ECC3F40F75A0F4780','{"fields":["transaction_id","order_no","currency","amount","refund_amount","refund_reason"],"orders":[["2024050103000000000050","S00000050","EUR","10.00","1.00",""],["2024050103000000000051","S00000051","EUR","10.00","2.5","zurück, \"ganz\""],["2024050103000000000052","S00000052","EUR","10.00","3","换货"],["2024050103000000000053","S00000053","EUR","10.00","0.10","a\tb"],["2024050103000000000054","S00000054","EUR","10.00","1.00",""],["2024050103000000000055","S00000055","EUR","10.00","2.5","zurück, \"ganz\""],["2024050103000000000056","S00000056","EUR","10.00","3","换货"],["2024050103000000000057","S00000057","EUR","10.00","0.10","a\tb"]]}');
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
INSERT INTO "gateway_requests" VALUES(1,1,1,1.71453239862125825882e+09,NULL,0,'{"2024050103000000000001":[],"2024050103000000000002":[]}');
INSERT INTO "gateway_requests" VALUES(2,1,1,1.71453239863727092745e+09,NULL,0,'{"2024050103000000000003":[],"2024050103000000000004":["2024050103000000000004-01"]}');
INSERT INTO "gateway_requests" VALUES(3,2,1,1.71453239865827274318e+09,NULL,0,'{"2024050103000000000005":[],"2024050103000000000006":[]}');
INSERT INTO "gateway_requests" VALUES(4,2,1,1.71453239866829085357e+09,NULL,0,'{"2024050103000000000007":[],"2024050103000000000008":[]}');
INSERT INTO "gateway_requests" VALUES(5,3,1,1.71453239870627093316e+09,NULL,0,'{"2024050103000000000009":[],"2024050103000000000010":[]}');
INSERT INTO "gateway_requests" VALUES(6,3,1,1.71453239871226549148e+09,NULL,0,'{"2024050103000000000011":[],"2024050103000000000012":[]}');
INSERT INTO "gateway_requests" VALUES(7,4,1,1.71453239874525666238e+09,NULL,0,'{"2024050103000000000015":[],"2024050103000000000016":[]}');
INSERT INTO "gateway_requests" VALUES(8,4,1,1.71453239875129175183e+09,NULL,0,'{"2024050103000000000013":[],"2024050103000000000014":[]}');
INSERT INTO "gateway_requests" VALUES(9,5,1,1.71453239879627227781e+09,NULL,0,'{"2024050103000000000020":[],"2024050103000000000021":[]}');
INSERT INTO "gateway_requests" VALUES(10,5,1,1.71453239880327296257e+09,NULL,0,'{"2024050103000000000022":[]}');
INSERT INTO "gateway_requests" VALUES(11,7,1,1.71453239883928155898e+09,NULL,0,'{"2024050103000000000031":[],"2024050103000000000032":[]}');
INSERT INTO "gateway_requests" VALUES(12,8,1,1.71453239886225461963e+09,NULL,0,'');
INSERT INTO "gateway_requests" VALUES(13,9,1,1.71453239888229084014e+09,NULL,0,'');
INSERT INTO "gateway_requests" VALUES(14,10,1,1.71453239890228676797e+09,NULL,0,'');
INSERT INTO "gateway_requests" VALUES(15,11,1,1.71453239892928314212e+09,NULL,0,'{"2024050103000000000044":[],"2024050103000000000045":[]}');
INSERT INTO "gateway_requests" VALUES(16,11,1,1.71453239893825507165e+09,NULL,0,'{"2024050103000000000046":[],"2024050103000000000047":[]}');
INSERT INTO "gateway_requests" VALUES(17,11,1,1.71453239894626140596e+09,NULL,0,'{"2024050103000000000048":[],"2024050103000000000049":[]}');
INSERT INTO "gateway_requests" VALUES(18,12,1,1.71453239897925257683e+09,NULL,0,'{"2024050103000000000050":[],"2024050103000000000051":[]}');
INSERT INTO "gateway_requests" VALUES(19,12,1,1.71453239948727631566e+09,NULL,0,'{"2024050103000000000052":[],"2024050103000000000053":[]}');
INSERT INTO "gateway_requests" VALUES(20,12,1,1714532399.99526,NULL,0,'{"2024050103000000000054":[],"2024050103000000000055":[]}');
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
INSERT INTO "gateway_slices" VALUES(5,2,3,5,3,1,1714532413.78726,0);
INSERT INTO "gateway_slices" VALUES(5,3,6,6,1,0,0.0,0);
INSERT INTO "gateway_slices" VALUES(5,4,0,8,4,0,0.0,0);
INSERT INTO "gateway_slices" VALUES(7,1,0,1,2,0,0.0,0);
INSERT INTO "gateway_slices" VALUES(7,2,2,3,2,1,1.71453241383127522471e+09,0);
INSERT INTO "gateway_slices" VALUES(7,3,4,5,2,0,0.0,0);
CREATE TABLE gateway_states (
	job_id INTEGER NOT NULL, 
	first INTEGER NOT NULL, 
	last INTEGER NOT NULL, 
	slice INTEGER NOT NULL, 
	state TEXT NOT NULL, 
	request_id INTEGER, 
	ended_at DOUBLE, 
	code TEXT DEFAULT '' NOT NULL, 
	text TEXT DEFAULT '' NOT NULL, 
	reference_list TEXT DEFAULT '' NOT NULL, 
	proof TEXT DEFAULT '' NOT NULL, 
	note TEXT DEFAULT '' NOT NULL, 
	PRIMARY KEY (job_id, first)
)
 WITHOUT ROWID

;
INSERT INTO "gateway_states" VALUES(1,0,1,0,'succeeded',1,1.71453239862854695321e+09,'','','["2024050103000000000001-01","2024050103000000000002-01"]','','');
INSERT INTO "gateway_states" VALUES(1,2,2,0,'succeeded',2,1.71453239864065670964e+09,'','','["2024050103000000000003-01"]','','');
INSERT INTO "gateway_states" VALUES(1,3,3,0,'declined',2,1.71453239864065670964e+09,'2203','refund_amount is above what is left of the captured amount','','','');
INSERT INTO "gateway_states" VALUES(2,0,0,0,'held',3,1.71453239866225409511e+09,'','recovery proved that it was not done: the gateway lists no refund that could be it; before: the request was sent and its reply was lost: ClientOSError: [Errno 104] Connection reset by peer','','not done','');
INSERT INTO "gateway_states" VALUES(2,1,1,0,'held',3,1.71453239866225409511e+09,'','recovery proved that it was not done: the gateway lists no refund that could be it; before: the request was sent and its reply was lost: ClientOSError: [Errno 104] Connection reset by peer','','not done','');
INSERT INTO "gateway_states" VALUES(2,2,3,0,'succeeded',4,1.71453239867158460617e+09,'','','["2024050103000000000007-01","2024050103000000000008-01"]','','');
INSERT INTO "gateway_states" VALUES(3,0,0,0,'declined',5,1.71453239870893120767e+09,'','an operator decided: not theirs','','operator','not theirs');
INSERT INTO "gateway_states" VALUES(3,1,1,0,'new',5,1.71453239870893120767e+09,'','an operator decided: seen in the portal','','operator','seen in the portal');
INSERT INTO "gateway_states" VALUES(3,2,3,0,'succeeded',6,1.71453239871473503115e+09,'','','["2024050103000000000011-01","2024050103000000000012-01"]','','');
INSERT INTO "gateway_states" VALUES(4,0,1,0,'succeeded',7,1714532398.74844,'','','["2024050103000000000015-01","2024050103000000000016-01"]','','');
INSERT INTO "gateway_states" VALUES(4,2,2,0,'held',8,1.71453239875401639933e+09,'2005','recovery proved that it was not done: the gateway lists no refund that could be it; before: refund_status ''0'', 2005: amount is not the order''s: this status has no meaning in the Dialect; ask the gateway, and list it in Dialect.done_statuses, declined_statuses or pending_statusesamount is not the order''s','','not done','');
INSERT INTO "gateway_states" VALUES(4,3,3,0,'held',8,1.71453239875401639933e+09,'2005','recovery proved that it was not done: the gateway lists no refund that could be it; before: refund_status ''0'', 2005: amount is not the order''s: this status has no meaning in the Dialect; ask the gateway, and list it in Dialect.done_statuses, declined_statuses or pending_statusesamount is not the order''s','','not done','');
INSERT INTO "gateway_states" VALUES(5,0,1,4,'new',NULL,NULL,'','','','','');
INSERT INTO "gateway_states" VALUES(5,2,2,1,'new',NULL,NULL,'','','','','');
INSERT INTO "gateway_states" VALUES(5,3,4,2,'succeeded',9,1.71453239879921150211e+09,'','','["2024050103000000000020-01","2024050103000000000021-01"]','','');
INSERT INTO "gateway_states" VALUES(5,5,5,2,'succeeded',10,1.71453239880603766436e+09,'','','["2024050103000000000022-01"]','','');
INSERT INTO "gateway_states" VALUES(5,6,6,3,'new',NULL,NULL,'','','','','');
INSERT INTO "gateway_states" VALUES(5,7,8,4,'new',NULL,NULL,'','','','','');
INSERT INTO "gateway_states" VALUES(7,0,1,1,'new',NULL,NULL,'','','','','');
INSERT INTO "gateway_states" VALUES(7,2,3,2,'succeeded',11,1.71453239884267640111e+09,'','','["2024050103000000000031-01","2024050103000000000032-01"]','','');
INSERT INTO "gateway_states" VALUES(7,4,5,3,'new',NULL,NULL,'','','','','');
INSERT INTO "gateway_states" VALUES(8,0,2,0,'new',NULL,NULL,'','','','','');
INSERT INTO "gateway_states" VALUES(9,0,2,0,'new',NULL,NULL,'','','','','');
INSERT INTO "gateway_states" VALUES(10,0,2,0,'new',NULL,NULL,'','','','','');
INSERT INTO "gateway_states" VALUES(11,0,1,0,'unknown',15,1.71453239893239521973e+09,'','the request was sent and its reply was lost: ClientOSError: [Errno 104] Connection reset by peer','','','');
INSERT INTO "gateway_states" VALUES(11,2,3,0,'succeeded',16,1.71453239894222307206e+09,'','','["2024050103000000000046-01","2024050103000000000047-01"]','','');
INSERT INTO "gateway_states" VALUES(11,4,5,0,'succeeded',17,1.71453239894938707353e+09,'','','["2024050103000000000048-01","2024050103000000000049-01"]','','');
INSERT INTO "gateway_states" VALUES(12,0,1,0,'succeeded',18,1.7145323994839203358e+09,'','','["2024050103000000000050-01","2024050103000000000051-01"]','','');
INSERT INTO "gateway_states" VALUES(12,2,3,0,'succeeded',19,1.71453239999125075336e+09,'','','["2024050103000000000052-01","2024050103000000000053-01"]','','');
INSERT INTO "gateway_states" VALUES(12,4,5,0,'intent',20,NULL,'','','','','');
INSERT INTO "gateway_states" VALUES(12,6,7,0,'new',NULL,NULL,'','','','','');
CREATE INDEX gateway_slices_by_time ON gateway_slices (finished, due_at);
CREATE INDEX gateway_requests_by_job ON gateway_requests (job_id);
COMMIT;
