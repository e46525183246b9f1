_base_ = ["./imagenetc_resnet50_eata.py", "../../_base_/cls/reservoir.py"]
