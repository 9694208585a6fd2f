-- What was forecast for builds (factmill forecast), to be held against what they came to.
CREATE TABLE forecasts (
    lock_digest VARCHAR NOT NULL,     -- of the build that it is for
    benchmark   VARCHAR NOT NULL,
    made_at     TIMESTAMPTZ NOT NULL,
    told        VARCHAR NOT NULL      -- JSON
);
