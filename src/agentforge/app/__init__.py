"""What every surface needs: starting and continuing runs, providers, recordings, diagnosis."""
