-- Views of the warehouse's own tables; those of benchmarks' tables (latest_<table>) are made with the tables.
CREATE VIEW latest_builds AS
SELECT DISTINCT ON (benchmark) * FROM (
    SELECT
        *,
        -- an evaluation is of one model after another, so none is a part of another
        coalesce(list_has_any(json_keys(origin, '$.flow'), ['build', 'evaluation']), false) OR NOT (
            coalesce(json_type(origin, '$.flow.limit'), 'NULL') <> 'NULL'
            OR coalesce(list_max(list_transform(
                json_keys(origin, '$.flow'), lambda name: json_array_length(origin, '$.flow."' || name || '"')
            )), 0) > 0
        ) AS is_whole
    FROM builds
) ORDER BY benchmark, is_whole DESC, published_at DESC, build_id DESC;
COMMENT ON COLUMN latest_builds.is_whole IS 'False of a build with a limit or of a part of the source.';
COMMENT ON VIEW latest_builds IS 'The latest build of each benchmark, as latest:BENCHMARK names it: of whole builds of the default source the newest, where there are none the newest of all (is_whole says which).';

CREATE VIEW rejects_by_reason AS
SELECT b.benchmark, r.build_id, s.position, r.stage, r.reason, count(*) AS rows, count(*) / any_value(s.rows_in) AS share
FROM rejects r JOIN builds b USING (build_id) JOIN build_stages s USING (build_id, stage)
GROUP BY ALL;
COMMENT ON VIEW rejects_by_reason IS 'How many rows each stage of a build dropped for each reason.';
COMMENT ON COLUMN rejects_by_reason.rows IS 'Rows that it dropped for it.';
COMMENT ON COLUMN rejects_by_reason.share IS 'Of the rows that came into the stage.';

CREATE VIEW cost_per_stage AS
SELECT
    b.benchmark, s.build_id, s.position, s.stage, s.calls_sent, s.calls_replayed, s.tokens_in, s.tokens_out, s.cost_usd, s.seconds,
    coalesce(u.replies, 0) AS replies, coalesce(u.replies_cost_usd, 0) AS replies_cost_usd
FROM build_stages s JOIN builds b USING (build_id) LEFT JOIN (
    SELECT build_id, stage, count(*) AS replies, sum(cost_usd) AS replies_cost_usd
    FROM (SELECT DISTINCT build_id, stage, record_id FROM build_calls) JOIN calls USING (record_id)
    GROUP BY ALL
) u ON u.build_id = s.build_id AND u.stage = s.stage;
COMMENT ON VIEW cost_per_stage IS 'What each stage of a build asked and cost.';
COMMENT ON COLUMN cost_per_stage.cost_usd IS 'Price of the calls that this build sent, in US dollars.';
COMMENT ON COLUMN cost_per_stage.replies IS 'Different replies that the stage rests on, also those that earlier builds asked for.';
COMMENT ON COLUMN cost_per_stage.replies_cost_usd IS 'What these cost whenever they were asked for, in US dollars: what the stage costs without recorded calls.';
