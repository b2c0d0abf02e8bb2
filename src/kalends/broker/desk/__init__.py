"""What users ask of a broker: bookings and their changes, scripts, notices; looked up, or carried out."""
