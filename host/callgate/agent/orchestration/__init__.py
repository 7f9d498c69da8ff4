"""Plans run: context, retries, results that are kept, cancelling; and answers with sources made of what came back."""
