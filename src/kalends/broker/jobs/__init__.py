"""The wing of jobs at a broker: bids for them, their starts and ends, places elsewhere, jobs in step."""
