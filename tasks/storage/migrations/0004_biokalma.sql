-- Published tables of BioKaLMA; columns are those of tasks/biokalma/core/rows.py (a test compares them).
CREATE TABLE biokalma (
    build_id           VARCHAR NOT NULL,
    id                 VARCHAR NOT NULL,
    people             VARCHAR[] NOT NULL,
    names              VARCHAR[] NOT NULL,
    relation           VARCHAR NOT NULL,
    relation_label     VARCHAR NOT NULL,
    paragraph          VARCHAR NOT NULL,
    general_question   VARCHAR NOT NULL,
    specific_question  VARCHAR NOT NULL,
    minimum_knowledge  STRUCT(qid VARCHAR, pid VARCHAR, property VARCHAR, value_qid VARCHAR, "value" VARCHAR, "precision" BIGINT, statement VARCHAR)[] NOT NULL,
    knowledge_graph    STRUCT(qid VARCHAR, pid VARCHAR, property VARCHAR, value_qid VARCHAR, "value" VARCHAR, "precision" BIGINT, statement VARCHAR)[] NOT NULL,
    text_source        VARCHAR NOT NULL,
    text_pages         VARCHAR[] NOT NULL,
    licence            VARCHAR NOT NULL,
    author             VARCHAR NOT NULL,
    scorer             VARCHAR NOT NULL,
    source_name        VARCHAR NOT NULL,
    source_row         BIGINT NOT NULL
);
CREATE TABLE biokalma_rounds (
    build_id           VARCHAR NOT NULL,
    number             BIGINT NOT NULL,
    chosen             STRUCT(qid VARCHAR, pid VARCHAR, property VARCHAR, value_qid VARCHAR, "value" VARCHAR, "precision" BIGINT, statement VARCHAR)[] NOT NULL,
    sentence           VARCHAR NOT NULL,
    candidates         STRUCT(qid VARCHAR, pid VARCHAR, "value" VARCHAR, specificity DOUBLE, perplexity DOUBLE, coherence DOUBLE, score DOUBLE)[] NOT NULL,
    refused            VARCHAR[] NOT NULL,
    removed_citations  BIGINT NOT NULL,
    call               VARCHAR NOT NULL,
    id                 VARCHAR NOT NULL,
    row_id             VARCHAR NOT NULL
);
CREATE TABLE biokalma_candidates (
    build_id     VARCHAR NOT NULL,
    id           VARCHAR NOT NULL,
    row_id       VARCHAR NOT NULL,
    role         VARCHAR NOT NULL,
    name         VARCHAR NOT NULL,
    qid          VARCHAR NOT NULL,
    via          VARCHAR NOT NULL,
    is_of_class  BOOLEAN NOT NULL,
    joined_to    VARCHAR[] NOT NULL
);
CREATE TABLE biokalma_relations (
    build_id       VARCHAR NOT NULL,
    id             VARCHAR NOT NULL,
    property       VARCHAR NOT NULL,
    graphs         BIGINT NOT NULL,
    graphs_in_all  BIGINT NOT NULL
);
