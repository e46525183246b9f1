_base_ = ["./imagenetc_vit_eata.py", "../../_base_/cls/reservoir.py"]
