"""What the command line goes by: options first, then the environment, then a TOML file."""
