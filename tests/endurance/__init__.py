"""A week of a replicator in an hour: is it as fast, as small and as right at its end as at its beginning?"""
