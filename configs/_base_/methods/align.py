# No gradient: the experts of the reservoir correct feature moments.
method = dict(type="align")
