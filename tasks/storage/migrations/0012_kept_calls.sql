-- Replies that a rebuild kept, though they were too old, since what they rest on has not changed (factmill build --since).
CREATE TABLE kept_calls (
    build_id  VARCHAR NOT NULL,
    record_id VARCHAR NOT NULL,      -- the reply
    why       VARCHAR NOT NULL,      -- what shows that it would come again
    checks    VARCHAR[] NOT NULL     -- records of the calls that were asked to see it
);
