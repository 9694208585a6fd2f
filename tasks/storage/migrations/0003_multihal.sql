-- Published tables of MultiHal; columns are those of tasks/multihal/core/rows.py (a test compares them).
CREATE TABLE multihal (
    build_id             VARCHAR NOT NULL,
    id                   VARCHAR NOT NULL,
    path_id              VARCHAR NOT NULL,
    question_id          VARCHAR NOT NULL,
    source_dataset       VARCHAR NOT NULL,
    domain               VARCHAR NOT NULL,
    licence              VARCHAR NOT NULL,
    input                VARCHAR NOT NULL,
    output               VARCHAR NOT NULL,
    optional_output      VARCHAR[] NOT NULL,
    incorrect_answers    VARCHAR[] NOT NULL,
    context              VARCHAR[] NOT NULL,
    answer_type          VARCHAR NOT NULL,
    subjects             VARCHAR[] NOT NULL,
    objects              VARCHAR[] NOT NULL,
    responses            VARCHAR[] NOT NULL,
    responses_formatted  VARCHAR[] NOT NULL,
    trip_labels          VARCHAR[] NOT NULL,
    part_sources         VARCHAR[] NOT NULL,
    chosen_by            VARCHAR NOT NULL,
    judged_by            VARCHAR NOT NULL,
    judged_score         BIGINT NOT NULL,
    language             VARCHAR NOT NULL,
    translated_by        VARCHAR,
    source_name          VARCHAR NOT NULL,
    source_row           BIGINT NOT NULL
);
CREATE TABLE multihal_dropped_paths (
    build_id     VARCHAR NOT NULL,
    id           VARCHAR NOT NULL,
    question_id  VARCHAR NOT NULL,
    path_ids     VARCHAR[] NOT NULL,
    reason       VARCHAR NOT NULL,
    detail       VARCHAR NOT NULL
);
