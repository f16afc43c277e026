"""Between models and bytes: what goes out, and what comes back."""
