-- Failures of chat that earlier versions recorded for good, though they said nothing of the prompt: no credit, a provider's
-- own error, a request that a server did not take. What of them is about the prompt cannot be told from the 200 characters that
-- are recorded, so the next run asks all of them again. Builds that rest on them are replayed as they were.
UPDATE calls SET transient = true
WHERE NOT transient AND status = 'failed'
  AND ((operation = 'chat' AND starts_with(error, 'http_4')) OR starts_with(error, 'http_402'));

-- Texts that came with a provider's failure, and were taken for the model's answer. Bodies of 4,096 characters and more are
-- packed, and stay as they are.
UPDATE calls SET transient = true
WHERE NOT transient AND status = 'ok' AND operation = 'chat'
  AND regexp_matches(body, '"finish": ?\[[^\]]*"(error|insufficient_system_resource|network_error|abort|aborted|timeout|[^"]*malformed[^"]*)"', 'i');
