// SPDX-License-Identifier: GPL-3.0-or-later
//
// Analyse ▸ Size…: what a model's cache, weights and activations cost, and how many sequences fit, as `kvloupe size`
// says it. Everything in it is predicted.
#pragma once

#include <QDialog>  // first: moc 6.4 cannot parse libstdc++ when <compare> is the first header it meets

#include "engine/analysis/known_models.h"
#include "engine/analysis/size_report.h"

#include <optional>

class QComboBox;
class QDoubleSpinBox;
class QPushButton;
class QSpinBox;
class QTextBrowser;

namespace kvloupe {

struct SizeCase;

class SizeDialog : public QDialog {
    Q_OBJECT

public:
    // model: a known name, bundled:NAME or a path; empty: the first everyday case is shown.
    SizeDialog(KnownModels known, const QString& model, QWidget* parent = nullptr);

    ~SizeDialog() override;

    // What the fields ask for and how it came out; empty while the problem says why there is nothing.
    const std::optional<SizeReport>& report() const { return m_report; }
    const QString& problem() const { return m_problem; }
    // The result as plain text, one line each.
    QString text() const;

private:
    void buildFields();
    void buildLayout();
    void showCase(int index);
    void chooseFile();
    void findModel();
    void leaveCase();
    void update();
    void showResult();
    SizeRequest request() const;

    KnownModels m_known;
    QString m_modelText;                     // what m_model was found by
    std::optional<SizedModel> m_model;
    QString m_modelProblem;                  // why there is none
    QString m_problem;                       // why there is no report
    std::optional<SizeReport> m_report;
    QComboBox *m_case, *m_name, *m_keys, *m_values, *m_gpu;
    QPushButton* m_browse;
    QSpinBox *m_context, *m_batch, *m_kvHeads, *m_tensor, *m_pipeline;
    QDoubleSpinBox* m_utilization;
    QTextBrowser* m_result;
    QPushButton* m_copy;
    bool m_filling = false;                  // fields are being set together
};

}  // namespace kvloupe
