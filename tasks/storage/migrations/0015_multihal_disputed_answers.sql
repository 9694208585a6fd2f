-- MultiHal: answers of united questions that agree with none of the right ones.
ALTER TABLE multihal ADD COLUMN disputed_answers VARCHAR[] DEFAULT [];
ALTER TABLE multihal ALTER COLUMN disputed_answers SET NOT NULL;
