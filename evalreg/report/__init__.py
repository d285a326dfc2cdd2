"""What a person sees: tables, summaries and figures."""
