_base_ = ["./ccc_resnet50_eata.py", "../../_base_/cls/reservoir.py"]
