CREATE TABLE gateway_journal_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY);

-- slice_size is 0 where a job is in one piece.
CREATE TABLE gateway_jobs (
    id SERIAL_KEY, name TEXT NOT NULL UNIQUE, operation TEXT NOT NULL, merchant_id TEXT NOT NULL,
    account_id TEXT NOT NULL, gateway TEXT NOT NULL, created_at DOUBLE PRECISION NOT NULL,
    total BIGINT NOT NULL, slice_size BIGINT NOT NULL
);

-- The slices of a job: 1, 2, ... where it was cut, and else 0 alone.
-- The orders of a slice stand between two positions, not all of them there are its own. A slice
-- is leased: its epoch grows whenever a process takes it. One that is not finished is handed to a
-- queue when it is due.
CREATE TABLE gateway_slices (
    job_id BIGINT NOT NULL, slice INTEGER NOT NULL, first BIGINT NOT NULL, last BIGINT NOT NULL,
    total BIGINT NOT NULL, finished BOOLEAN NOT NULL DEFAULT FALSE,
    due_at DOUBLE PRECISION NOT NULL DEFAULT 0, epoch BIGINT NOT NULL DEFAULT 0,
    owner TEXT NOT NULL DEFAULT '', expires_at DOUBLE PRECISION NOT NULL DEFAULT 0,
    PRIMARY KEY (job_id, slice)
);
CREATE INDEX gateway_slices_by_time ON gateway_slices (finished, due_at);

-- The orders as they were submitted, in blocks by position; never written again. They are apart
-- from their chunks since SQLite writes a whole row when one column changes. lookup_keys has 32
-- bits of the identity of each, bodies is a JSON object with a list of values for each field.
CREATE TABLE gateway_orders (
    job_id BIGINT NOT NULL, first BIGINT NOT NULL, lookup_keys BINARY_DATA NOT NULL,
    bodies TEXT NOT NULL, PRIMARY KEY (job_id, first)
) BY_KEY;

-- What is known of the orders of a job, chunk by chunk as it was submitted: see `ChunkState`. In
-- SQLite, a row of its references is longer than a table without rowid keeps on one page.
CREATE TABLE gateway_chunks (
    job_id BIGINT NOT NULL, first BIGINT NOT NULL, last BIGINT NOT NULL, slice INTEGER NOT NULL,
    state TEXT NOT NULL, ended_at DOUBLE PRECISION, sent TEXT NOT NULL DEFAULT '',
    reference_list TEXT NOT NULL DEFAULT '', exceptions TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (job_id, first)
);

-- The request_id of each payout, in lower case, so that a second job with it is refused.
CREATE TABLE gateway_payout_keys (
    request_id TEXT NOT NULL, job_id BIGINT NOT NULL, position BIGINT NOT NULL,
    PRIMARY KEY (request_id, job_id, position)
) BY_KEY;
CREATE INDEX gateway_payout_keys_by_job ON gateway_payout_keys (job_id, position);
