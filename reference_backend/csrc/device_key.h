// The dispatch keys and the device type of this build of the core. All other files use these names.
//
// HPU is torch's own key for Gaudi. PrivateUse1 is the key of devices outside torch's tree; with
// -DHPU_REFERENCE_PRIVATEUSE1, the device has this key and is called refdev.
#pragma once

#ifdef HPU_REFERENCE_PRIVATEUSE1
#define DEVICE_KEY PrivateUse1
#define DEVICE_KEY_IS_PRIVATEUSE1 1
#define DEVICE_KEY_BIT PrivateUse1Bit
#define AUTOGRAD_DEVICE_KEY AutogradPrivateUse1
#define AUTOCAST_DEVICE_KEY AutocastPrivateUse1
#define SPARSE_DEVICE_KEY SparsePrivateUse1
#define SPARSE_CSR_DEVICE_KEY SparseCsrPrivateUse1
#define QUANTIZED_DEVICE_KEY QuantizedPrivateUse1
#define NESTED_DEVICE_KEY NestedTensorPrivateUse1
#define UPPERCASE_DEVICE_NAME REFDEV
#define DEVICE_NAME "refdev"
#else
#define DEVICE_KEY HPU
#define DEVICE_KEY_IS_PRIVATEUSE1 0
#define DEVICE_KEY_BIT HPUBit
#define AUTOGRAD_DEVICE_KEY AutogradHPU
#define AUTOCAST_DEVICE_KEY AutocastHPU
#define SPARSE_DEVICE_KEY SparseHPU
#define SPARSE_CSR_DEVICE_KEY SparseCsrHPU
#define QUANTIZED_DEVICE_KEY QuantizedHPU
#define NESTED_DEVICE_KEY NestedTensorHPU
#define UPPERCASE_DEVICE_NAME HPU
#define DEVICE_NAME "hpu"
#endif
