-- GRANOLA-EQ: whether the Wikidata holds the fact, and which descriptions were made of an item's claims.
ALTER TABLE granola_eq ADD COLUMN fact_in_graph BOOLEAN;
ALTER TABLE granola_eq ADD COLUMN question_entity_description_made BOOLEAN DEFAULT false;
ALTER TABLE granola_eq ALTER COLUMN question_entity_description_made SET NOT NULL;
ALTER TABLE granola_eq ADD COLUMN answer_entity_description_made BOOLEAN DEFAULT false;
ALTER TABLE granola_eq ALTER COLUMN answer_entity_description_made SET NOT NULL;
