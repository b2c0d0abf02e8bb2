"""The search for slots to try: looks, waiting lists, sites that are away."""
