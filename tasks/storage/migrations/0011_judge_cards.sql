-- What was drawn for people to label, and what they are not told of it (factmill label export).
CREATE TABLE label_items (
    id             VARCHAR PRIMARY KEY,
    draw           VARCHAR NOT NULL,
    evaluation     VARCHAR NOT NULL,
    benchmark      VARCHAR NOT NULL,
    answer_id      VARCHAR NOT NULL,
    part           VARCHAR NOT NULL,
    setting        VARCHAR NOT NULL,
    cluster        VARCHAR NOT NULL,
    question       VARCHAR NOT NULL,
    gold           VARCHAR NOT NULL,
    answer         VARCHAR NOT NULL,
    stratum        VARCHAR NOT NULL,
    stratum_size   BIGINT NOT NULL
);
-- What people said of it: the newest label of an item by one person stands.
CREATE TABLE labels (
    item         VARCHAR NOT NULL,
    labeller     VARCHAR NOT NULL,
    label        VARCHAR NOT NULL,
    note         VARCHAR NOT NULL,
    file_digest  VARCHAR NOT NULL,
    imported_at  TIMESTAMPTZ NOT NULL,  -- told, never computed with
    PRIMARY KEY (item, labeller)
);
-- How far judges agree with people: one card a judge (model and prompts, or program and code), benchmark and set of labels.
CREATE TABLE judge_cards (
    id             VARCHAR PRIMARY KEY,
    benchmark      VARCHAR NOT NULL,
    judge          VARCHAR NOT NULL,
    prompt_digest  VARCHAR NOT NULL,
    labels_digest  VARCHAR NOT NULL,
    card           VARCHAR NOT NULL  -- JSON
);
