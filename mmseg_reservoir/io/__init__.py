"""Write files completely or not at all, and read them without pickle."""
