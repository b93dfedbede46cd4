# cmake -DMAKE_RECORDS=... -DTRAIN_TOKENIZER=... -DSOURCE=data-samples -DWORK=folder -P check.cmake
# The committed sample data is what the generators give, byte for byte.
file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK}/records ${WORK}/model)

function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${ARGN}: status ${status}")
  endif()
endfunction()

run(${MAKE_RECORDS} ${WORK}/records)
run(${TRAIN_TOKENIZER} ${WORK}/records/train.txt 1024 ${WORK}/model)
foreach(name records/train.txt records/calibration.txt records/heldout.txt records/heldout-task.jsonl
             model/tokenizer.json model/tokenizer_config.json)
  run(${CMAKE_COMMAND} -E compare_files ${WORK}/${name} ${SOURCE}/${name})
endforeach()
