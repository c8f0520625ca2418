"""What every Nodemend service stands on: errors, webhook models, configuration, serving, telemetry."""
