"""Admission webhooks: services that are asked about requests, and may change or refuse them.

    registered.py  the webhooks of the configurations, and which of them are asked about a request
    reviews.py     one call: what is sent (an AdmissionReview), and what the answer means
    mutating.py    one after the other, each sees what those before it changed; again if it wants to
    validating.py  all at once

Sources: apiserver/pkg/admission/plugin/webhook (1.36).
"""
