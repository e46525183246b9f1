_base_ = ["../../_base_/cls/runtime.py", "../../_base_/cls/domainnet126_resnet50.py"]
method = dict(type="eata", d_margin=0.1)  # of the repository that the paper uses
