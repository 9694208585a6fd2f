-- What was taken off a reply before it was read (thoughts, fences, remarks, …), parted by commas; null for nothing.
ALTER TABLE build_calls ADD COLUMN taken_off TEXT;
