-- Published tables of SLAQ; columns are those of tasks/slaq/core/rows.py and core/review.py (a test compares them).
CREATE TABLE slaq (
    build_id       VARCHAR NOT NULL,
    id             VARCHAR NOT NULL,
    "Category"     VARCHAR NOT NULL,
    "Topic"        VARCHAR NOT NULL,
    "URL"          VARCHAR NOT NULL,
    revid          BIGINT NOT NULL,
    "ShortQ1"       VARCHAR NOT NULL,
    "ShortA1"       VARCHAR NOT NULL,
    "ShortQ2"       VARCHAR NOT NULL,
    "ShortA2"       VARCHAR NOT NULL,
    "ShortQ3"       VARCHAR NOT NULL,
    "ShortA3"       VARCHAR NOT NULL,
    "ShortQ4"       VARCHAR NOT NULL,
    "ShortA4"       VARCHAR NOT NULL,
    "ShortQ5"       VARCHAR NOT NULL,
    "ShortA5"       VARCHAR NOT NULL,
    "LongQ"        VARCHAR NOT NULL,
    "LongA"        VARCHAR NOT NULL,
    "Pageviews"    BIGINT NOT NULL,
    half           VARCHAR NOT NULL,
    "ShortQ1_Entity" BIGINT NOT NULL,
    "ShortQ2_Entity" BIGINT NOT NULL,
    "ShortQ3_Entity" BIGINT NOT NULL,
    "ShortQ4_Entity" BIGINT NOT NULL,
    "ShortQ5_Entity" BIGINT NOT NULL,
    fact_types     VARCHAR[] NOT NULL,
    fact_types_by  VARCHAR NOT NULL,
    author         VARCHAR NOT NULL,
    judge          VARCHAR NOT NULL,
    reviewed_by    VARCHAR[] NOT NULL,
    licence        VARCHAR NOT NULL
);
CREATE TABLE slaq_categories (
    build_id       VARCHAR NOT NULL,
    id             VARCHAR NOT NULL,
    members        BIGINT NOT NULL,
    subcategories  BIGINT NOT NULL,
    drawn          BIGINT NOT NULL
);
CREATE TABLE slaq_review (
    build_id   VARCHAR NOT NULL,
    id         VARCHAR NOT NULL,
    benchmark  VARCHAR NOT NULL,
    row_id     VARCHAR NOT NULL,
    flag       VARCHAR NOT NULL,
    detail     VARCHAR NOT NULL,
    context    VARCHAR NOT NULL,
    proposed   STRUCT(field VARCHAR, "text" VARCHAR)[] NOT NULL,
    decision   VARCHAR NOT NULL,
    edited     STRUCT(field VARCHAR, "text" VARCHAR)[] NOT NULL,
    reviewer   VARCHAR NOT NULL,
    note       VARCHAR NOT NULL
);
-- What reviewers decided about flagged rows of any benchmark; the newest decision about an item counts.
CREATE TABLE review_decisions (
    id           VARCHAR PRIMARY KEY,
    benchmark    VARCHAR NOT NULL,
    item         VARCHAR NOT NULL,
    imported_at  TIMESTAMP WITH TIME ZONE NOT NULL
);
