/* Runs of gradus train that are more than one, or none. */
#ifndef GD_CLI_COMMANDS_TRAIN_MODES_H
#define GD_CLI_COMMANDS_TRAIN_MODES_H

#include "train/run/job.h"

/* Which options go together; ARGUMENT names two that do not. */
GD_NODISCARD gd_status gd__train_check_options(const gd_train_job *j);
/* Trains on all parts but one, for each part, and prints how good the models are. */
GD_NODISCARD gd_status gd__train_folds(gd_train_job *j);
/* Trains with other seeds: the last model is that of the seed itself, the others are members of the checkpoint. */
GD_NODISCARD gd_status gd__train_seeds(gd_train_job *j);
/* Finds a learning rate and prints it. */
GD_NODISCARD gd_status gd__train_find_rate(gd_train_job *j);

/* What is learnt from what, for people (cmd_train.c). */
void gd__train_introduce(gd_train_job *j);
/* The best parameters, or those to evaluate with, become the model's. */
GD_NODISCARD gd_status gd__train_take_best(gd_train_job *j);

#endif
