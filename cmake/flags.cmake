# Warnings and floating-point rules of every target. -ffp-contract=off: the same source must give the
# same bits with and without fused multiply-add in the instruction set (style.md rule 9).
add_compile_options(-Wall -Wextra -Wshadow -Wconversion -Wvla -Wdouble-promotion -ffp-contract=off)
if(ELASTIQ_WERROR)
  add_compile_options(-Werror)
endif()
if(ELASTIQ_SANITIZE)
  add_compile_options(-fsanitize=${ELASTIQ_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${ELASTIQ_SANITIZE})
endif()
add_compile_definitions(ELASTIQ_VERSION="${PROJECT_VERSION}")

# elastiq_library(NAME FILES... DEPENDS TARGETS...): one static library per folder, includes from the root.
function(elastiq_library name)
  cmake_parse_arguments(ARG "" "" "FILES;DEPENDS" ${ARGN})
  add_library(${name} STATIC ${ARG_FILES})
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PUBLIC ${ARG_DEPENDS})
endfunction()

# Code that is not hot is compiled for the compiler's time instead of its own: level 0 or 1.
function(elastiq_quick_compile name level)
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O${level}>)
endfunction()

# Libraries that include LibTorch share its flags and one precompiled header (its headers cost 10 s each).
function(elastiq_torch_library name)
  elastiq_library(${name} ${ARGN})
  target_link_libraries(${name} PUBLIC elastiq_torch_deps)
  target_precompile_headers(${name} REUSE_FROM elastiq_torch_pch)
endfunction()

if(ELASTIQ_TORCH)
  find_package(Torch REQUIRED)
  add_library(elastiq_torch_deps INTERFACE)
  target_link_libraries(elastiq_torch_deps INTERFACE ${TORCH_LIBRARIES})
  # LibTorch's headers are not clean under our warnings.
  target_include_directories(elastiq_torch_deps SYSTEM INTERFACE ${TORCH_INCLUDE_DIRS})
  file(WRITE ${PROJECT_BINARY_DIR}/torch_pch.cc "// Owner of the precompiled LibTorch header.\n")
  add_library(elastiq_torch_pch OBJECT ${PROJECT_BINARY_DIR}/torch_pch.cc)
  target_include_directories(elastiq_torch_pch PUBLIC ${PROJECT_SOURCE_DIR})
  target_link_libraries(elastiq_torch_pch PUBLIC elastiq_torch_deps)
  target_precompile_headers(elastiq_torch_pch PRIVATE <torch/torch.h>)
endif()
