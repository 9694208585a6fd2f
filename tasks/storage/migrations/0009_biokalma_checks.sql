-- What the checks of texts and questions count, and which candidates were weighed: in builds made before, all of them.
ALTER TABLE biokalma ADD COLUMN asked_share DOUBLE;
CREATE TABLE biokalma_rounds_now (
    build_id            VARCHAR NOT NULL,
    number              BIGINT NOT NULL,
    chosen              STRUCT(qid VARCHAR, pid VARCHAR, property VARCHAR, value_qid VARCHAR, "value" VARCHAR, "precision" BIGINT, statement VARCHAR)[] NOT NULL,
    sentence            VARCHAR NOT NULL,
    candidates          STRUCT(qid VARCHAR, pid VARCHAR, "value" VARCHAR, specificity DOUBLE, is_weighed BOOLEAN, perplexity DOUBLE, coherence DOUBLE, score DOUBLE)[] NOT NULL,
    refused             VARCHAR[] NOT NULL,
    removed_citations   BIGINT NOT NULL,
    unstated_citations  BIGINT NOT NULL,
    call                VARCHAR NOT NULL,
    id                  VARCHAR NOT NULL,
    row_id              VARCHAR NOT NULL
);
INSERT INTO biokalma_rounds_now SELECT
    build_id, number, chosen, sentence,
    list_transform(candidates, lambda c: struct_pack(
        qid := c.qid, pid := c.pid, "value" := c."value", specificity := c.specificity, is_weighed := true,
        perplexity := c.perplexity, coherence := c.coherence, score := c.score
    )),
    refused, removed_citations, 0, call, id, row_id
FROM biokalma_rounds;
DROP TABLE biokalma_rounds;
ALTER TABLE biokalma_rounds_now RENAME TO biokalma_rounds;
