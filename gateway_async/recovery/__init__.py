"""Unknown outcomes, settled from the gateway's own records: `recover` asks, `evidence` decides."""
