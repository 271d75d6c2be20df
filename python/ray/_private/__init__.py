"""What stands behind the API: not for users, though libraries reach into it."""
