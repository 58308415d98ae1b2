// A CUDA device that there is not, for a build of PyTorch without CUDA: autograd asks for the streams of its (fake) tensors. Nothing runs on it.
// It must be loaded before PyTorch's Python module, which looks for CUDA once.

#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

namespace at {

// PyTorch looks its hooks up by this very name.
struct CUDAHooks final : CUDAHooksInterface {
  explicit CUDAHooks(CUDAHooksArgs) {}
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasCUDA() const override { return true; }
  bool hasPrimaryContext(DeviceIndex) const override { return true; }
};

using at::CUDAHooksRegistry;
REGISTER_CUDA_HOOKS(CUDAHooks);

}  // namespace at

namespace c10::impl {

// One device with one stream, so nothing ever waits.
struct OneStream final : NoOpDeviceGuardImpl<DeviceType::CUDA> {
  Device getDevice() const override { return Device(DeviceType::CUDA, 0); }
  Stream getStream(Device) const noexcept override { return Stream(Stream::DEFAULT, Device(DeviceType::CUDA, 0)); }
};

C10_REGISTER_GUARD_IMPL(CUDA, OneStream);

}  // namespace c10::impl
