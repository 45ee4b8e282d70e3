"""ablate_explore.py - every interleaving of four small protocols, with their rules and with one rule out.

Articles 1, 2, 4 and 7. Each protocol is a few actors on one state; all orders of their steps are walked, each with a
kill at every place where one hurts. What decides in them is the product itself: proposals.next_step,
channel_render.advance and watermarks.belongs_to, versioned's stamps, oauth_tokens.in_grace. With the rules no state
breaks a promise; with one out, the shortest way to a broken one is told in words.

    python3 ablate.py explore              states visited, violations, counterexamples (3 s)
    python3 ablate.py explore proposal     one protocol; also --json

Not here: the models (ablate_models.py), the same with real processes and kills (tests/).
"""
