-- Calls, builds, their funnels and their rejects.
CREATE TABLE calls (
    record_id  VARCHAR NOT NULL,      -- sorts by the time the reply came
    key        VARCHAR NOT NULL,      -- digest of the call (tasks/core/calls/call.py)
    service    VARCHAR NOT NULL,
    operation  VARCHAR NOT NULL,
    parts      VARCHAR NOT NULL,      -- canonical JSON
    status     VARCHAR NOT NULL,      -- ok | failed
    error      VARCHAR,
    transient  BOOLEAN NOT NULL,
    body       VARCHAR NOT NULL,      -- canonical JSON
    tokens_in  BIGINT NOT NULL,
    tokens_out BIGINT NOT NULL,
    cost_usd   DOUBLE NOT NULL,
    latency_s  DOUBLE NOT NULL,
    asked_at   TIMESTAMPTZ NOT NULL
);
CREATE TABLE builds (
    build_id       VARCHAR PRIMARY KEY,
    benchmark      VARCHAR NOT NULL,
    lock_digest    VARCHAR NOT NULL,
    lock           VARCHAR NOT NULL,  -- canonical JSON: every input by content
    origin         VARCHAR NOT NULL,  -- JSON: where the inputs were found (paths, world), not part of the lock
    content_digest VARCHAR NOT NULL,  -- over the published tables' Parquet bytes
    report         VARCHAR NOT NULL,  -- JSON
    started_at     TIMESTAMPTZ NOT NULL,
    published_at   TIMESTAMPTZ NOT NULL
);
CREATE TABLE build_tables (
    build_id   VARCHAR NOT NULL,
    table_name VARCHAR NOT NULL,
    rows       BIGINT NOT NULL,
    sha256     VARCHAR NOT NULL,      -- of the table's Parquet bytes
    PRIMARY KEY (build_id, table_name)
);
CREATE TABLE build_stages (
    build_id       VARCHAR NOT NULL,
    position       INTEGER NOT NULL,
    stage          VARCHAR NOT NULL,
    rows_in        BIGINT NOT NULL,
    rows_out       BIGINT NOT NULL,
    rejects        BIGINT NOT NULL,
    merged         BIGINT NOT NULL,
    calls_sent     BIGINT NOT NULL,
    calls_replayed BIGINT NOT NULL,
    tokens_in      BIGINT NOT NULL,
    tokens_out     BIGINT NOT NULL,
    cost_usd       DOUBLE NOT NULL,
    seconds        DOUBLE NOT NULL
);
CREATE TABLE rejects (
    build_id VARCHAR NOT NULL,
    stage    VARCHAR NOT NULL,
    id       VARCHAR NOT NULL,
    reason   VARCHAR NOT NULL,
    detail   VARCHAR NOT NULL,
    row      VARCHAR                  -- JSON of the row as the stage received it
);
CREATE TABLE merged_rows (
    build_id VARCHAR NOT NULL,
    stage    VARCHAR NOT NULL,
    id       VARCHAR NOT NULL,
    into_id  VARCHAR NOT NULL
);
CREATE TABLE build_calls (
    build_id  VARCHAR NOT NULL,
    stage     VARCHAR NOT NULL,
    id        VARCHAR NOT NULL,       -- row the call was made for
    key       VARCHAR NOT NULL,
    record_id VARCHAR NOT NULL        -- the very reply the build rests on
);
