package fsinfo

func platformMachineID() string { return "" }
