"""Weight tables: how names of one format map to another."""
