_base_ = ["./imagenetc_resnet50gn_eata.py", "../../_base_/cls/reservoir.py"]
