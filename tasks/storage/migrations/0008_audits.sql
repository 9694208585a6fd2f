-- What readers said of rows of builds (factmill audit): the newest verdict of a row stands.
CREATE TABLE audit_verdicts (
    build_id   VARCHAR NOT NULL,
    row_id     VARCHAR NOT NULL,
    marks      VARCHAR NOT NULL,  -- JSON: kind → faulty parts, or mark
    reviewer   VARCHAR NOT NULL,
    note       VARCHAR NOT NULL,
    given_at   TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (build_id, row_id)
);
