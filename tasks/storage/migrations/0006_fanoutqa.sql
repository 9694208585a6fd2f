-- Published tables of FanOutQA; columns are those of tasks/fanoutqa/core/rows.py and core/review.py (a test compares them).
CREATE TABLE fanoutqa (
    build_id       VARCHAR NOT NULL,
    id             VARCHAR NOT NULL,
    split          VARCHAR NOT NULL,
    source         VARCHAR NOT NULL,
    source_name    VARCHAR NOT NULL,
    source_row     BIGINT NOT NULL,
    question       VARCHAR NOT NULL,
    sub_questions  BIGINT NOT NULL,
    articles       VARCHAR[] NOT NULL,
    epoch          VARCHAR NOT NULL,
    statements     VARCHAR[] NOT NULL,
    flags          VARCHAR[] NOT NULL,
    judge          VARCHAR,
    author         VARCHAR,
    reviewed_by    VARCHAR[] NOT NULL,
    licence        VARCHAR NOT NULL
);
CREATE TABLE fanoutqa_dev (
    build_id       VARCHAR NOT NULL,
    id             VARCHAR NOT NULL,
    question       VARCHAR NOT NULL,
    decomposition  VARCHAR NOT NULL,
    answer         VARCHAR NOT NULL,
    categories     VARCHAR[] NOT NULL
);
CREATE TABLE fanoutqa_test (
    build_id            VARCHAR NOT NULL,
    id                  VARCHAR NOT NULL,
    question            VARCHAR NOT NULL,
    necessary_evidence  VARCHAR NOT NULL,
    categories          VARCHAR[] NOT NULL
);
CREATE TABLE fanoutqa_test_answers (
    build_id       VARCHAR NOT NULL,
    id             VARCHAR NOT NULL,
    answer         VARCHAR NOT NULL,
    decomposition  VARCHAR NOT NULL
);
CREATE TABLE fanoutqa_articles (
    build_id   VARCHAR NOT NULL,
    id         VARCHAR NOT NULL,
    title      VARCHAR NOT NULL,
    pageid     BIGINT NOT NULL,
    revid      BIGINT NOT NULL,
    "timestamp" VARCHAR,
    url        VARCHAR NOT NULL,
    questions  BIGINT NOT NULL
);
CREATE TABLE fanoutqa_references (
    build_id      VARCHAR NOT NULL,
    id            VARCHAR NOT NULL,
    question_id   VARCHAR NOT NULL,
    path          VARCHAR NOT NULL,
    sub_question  VARCHAR NOT NULL,
    answer        VARCHAR,
    title_asked   VARCHAR NOT NULL,
    title         VARCHAR,
    pageid        BIGINT,
    revid         BIGINT,
    "timestamp"   VARCHAR,
    url           VARCHAR NOT NULL,
    problem       VARCHAR,
    found         BOOLEAN,
    missing       VARCHAR[] NOT NULL
);
CREATE TABLE fanoutqa_review (
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
